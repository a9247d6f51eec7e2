"""Whether an earlier gateway is stable again, while a later one is used. Pure: the caller passes the clock.

Failback cuts the open connections, since they end at the gateway that is left. So the earlier gateway must have
answered without a failure for some time first; if it fails soon after a failback, for twice that time, and so on.
"""

from tributary.settings.probing import Probe
from tributary.wireguard.tunnels import Tunnels

SOON = 3600.0
"""Seconds after a failback in which a failure of the gateway counts as flapping."""
MOST_PATIENCE = 16
"""The maximal multiple of ``tunnels.return_after``."""


class FailbackMonitor:
    """Probes one earlier gateway after the other; ``index`` is that of the one whose turn it is, from 0."""

    def __init__(self, probe: Probe, tunnels: Tunnels) -> None:
        self._probe = probe
        self._after = tunnels.return_after.seconds
        self._backoff = 1
        self._failed_back = float("-inf")
        self._failed_rounds: dict[int, int] = {}
        self._watch(0)

    def _watch(self, place: int) -> None:
        self.index = place
        self.since: float | None = None
        """When the answers without a failure began, None if the last probe had none."""
        self._failures = 0
        self._asked = float("-inf")

    @property
    def next_due(self) -> float:
        return self._asked + self._probe.interval.seconds

    @property
    def required(self) -> float:
        """Seconds without a failure before the failback."""
        return self._after * self._backoff

    def start_due(self, now: float) -> bool:
        """Whether a probe is due; the caller then sends it."""
        if now < self.next_due:
            return False
        self._asked = now
        return True

    def record(self, answered: bool, used: int, now: float) -> None:
        """Takes the result of a probe; ``used`` is the index of the gateway in use."""
        if answered:
            self._failures = 0
            self.since = now if self.since is None else self.since
            return
        self.since = None
        self._failures += 1
        if self._failures >= self._probe.failures:
            self._failed_rounds[self.index] = self._failed_rounds.get(self.index, 0) + 1
            self._watch((self.index + 1) % max(used, 1))

    @property
    def turn(self) -> int:
        """Which of the gateway's addresses to probe, from 0: the next one after 1, 2, 4, ... failed rounds."""
        return self._failed_rounds.get(self.index, 0).bit_length()

    def is_stable(self, now: float) -> bool:
        return self.since is not None and now - self.since >= self.required

    def on_fail_back(self, now: float) -> None:
        self._failed_back = now
        self._watch(0)

    def on_fail_over(self, now: float) -> None:
        """The gateway in use has failed: the time doubles if that was soon after a failback."""
        is_soon = now - self._failed_back < SOON
        self._backoff = min(2 * self._backoff, MOST_PATIENCE) if is_soon else 1
        self._watch(0)
