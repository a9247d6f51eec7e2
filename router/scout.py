"""Whether an earlier gateway of the order answers again, while a later one is used. Pure: the clock is the caller's.

To go back cuts the connections that run, since they end at the gateway that is left. So an earlier gateway must have
answered without a gap for some time first; and when it fails soon after that, for twice that time, and so on.
"""

from tributary.settings.probing import Probe
from tributary.wireguard.tunnels import Tunnels

SOON = 3600.0
"""Seconds after a return in which a failure of the gateway counts as flapping."""
MOST_PATIENCE = 16
"""How many times the time of the settings an earlier gateway must answer at most."""


class Scout:
    """Asks one earlier gateway after the other: ``place`` is that of the one whose turn it is, from 0."""

    def __init__(self, probe: Probe, tunnels: Tunnels) -> None:
        self._probe = probe
        self._after = tunnels.return_after.seconds
        self._patience = 1
        self._returned = float("-inf")
        self._in_vain: dict[int, int] = {}
        self._begin(0)

    def _begin(self, place: int) -> None:
        self.place = place
        self.since: float | None = None
        """When the answers without a gap began, None if the last question had none."""
        self._failures = 0
        self._asked = float("-inf")

    @property
    def next_due(self) -> float:
        """When the next question is due."""
        return self._asked + self._probe.interval.seconds

    @property
    def needed(self) -> float:
        """Seconds of answers without a gap after which the tunnels go back."""
        return self._after * self._patience

    def begin(self, now: float) -> bool:
        """Whether a question is due, which the caller then asks."""
        if now < self.next_due:
            return False
        self._asked = now
        return True

    def told(self, answered: bool, used: int, now: float) -> None:
        """What came of a question; ``used`` is the place of the gateway that is used, before which others are asked."""
        if answered:
            self._failures = 0
            self.since = now if self.since is None else self.since
            return
        self.since = None
        self._failures += 1
        if self._failures >= self._probe.failures:
            self._in_vain[self.place] = self._in_vain.get(self.place, 0) + 1
            self._begin((self.place + 1) % max(used, 1))

    @property
    def turn(self) -> int:
        """Which of the addresses of the gateway at ``place`` to ask, from 0: the next one after 1, 2, 4, ... rounds."""
        return self._in_vain.get(self.place, 0).bit_length()

    def is_steady(self, now: float) -> bool:
        """Whether it has answered for long enough."""
        return self.since is not None and now - self.since >= self.needed

    def returned(self, now: float) -> None:
        """The tunnels go back."""
        self._returned = now
        self._begin(0)

    def left(self, now: float) -> None:
        """The gateway in use was given up: was that soon after a return?"""
        is_soon = now - self._returned < SOON
        self._patience = min(2 * self._patience, MOST_PATIENCE) if is_soon else 1
        self._begin(0)
