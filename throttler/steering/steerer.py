"""Reads the subflows of this host's sockets, and has the kernel do what the decider wants."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress

from throttler.policy.values import SteeringMode
from throttler.service.status import SteeringStatus
from throttler.steering.decider import Change, Decider, PathOf
from tributary.kernel import mptcp_pm, mptcp_switch
from tributary.mptcp import sockets
from tributary.settings.privacy import Privacy

_BETWEEN = 0.5
"""Seconds between two readings."""
_SHARE = 75
"""Readings take at most one part in so many of a processor's time."""
_STILL_RUNNING = 0.1
"""Seconds until it is looked again whether a reading is over."""


def require(mode: SteeringMode) -> None:
    """Raise CommandError, exit 69, if this network namespace does not allow that."""
    if mode is SteeringMode.ON:
        mptcp_switch.require_user_space()


class Steerer:
    """Steers the sessions that end on this host. All of it runs in one thread, beside the daemon's loop."""

    def __init__(self, path_of: PathOf) -> None:
        self._path_of = path_of
        self._mode = SteeringMode.OFF
        self._decider = Decider(path_of, is_dry=True)
        self._took = 0.0

    def turn(self, mode: SteeringMode) -> float:
        """Take a reading, and do what follows; the seconds of a processor that this took.

        In another ``mode`` than before, what was decided is undone first. What was learned stays.
        """
        begun = time.thread_time()
        if mode is not self._mode:
            self._apply(self._decider.release())
            self._mode = mode
            self._decider = Decider(self._path_of, mode is not SteeringMode.ON, self._decider.learned)
        if mode is not SteeringMode.OFF:
            # What changes while it is read is read the next time.
            with suppress(OSError):
                readings = dict(sockets.each_traffic())
                self._apply(self._decider.decide(readings, time.monotonic_ns()))
        return time.thread_time() - begun

    @property
    def has_learned(self) -> bool:
        """Whether a reading right after a join is of use."""
        return len(self._decider.learned) > 0

    @property
    def status(self) -> SteeringStatus:
        decider = self._decider
        counts = {str(kind): count for kind, count in sorted(decider.counts.items())}
        return SteeringStatus(
            mode=str(self._mode), sessions=decider.steered, learned=len(decider.learned), decisions=counts
        )

    def explain(self, token: int, privacy: Privacy) -> str | None:
        """Why the session's paths are in use or not; None where sessions are not steered."""
        return None if self._mode is SteeringMode.OFF else self._decider.explain(token, privacy) or "it has one path"

    def _apply(self, changes: Iterable[Change]) -> None:
        """A change that the kernel refuses is seen in the next reading."""
        for change in changes:
            with suppress(OSError):
                mptcp_pm.send(mptcp_pm.priority_body(change.token, change.subflow, change.backup))


class Turns:
    """Has the steerer take its turns when they are due, by ``do``, which runs them beside the daemon's loop."""

    def __init__(self, steerer: Steerer, do: Callable[[Callable[[], float]], Future[float]]) -> None:
        self._steerer, self._do = steerer, do
        self._mode = SteeringMode.OFF
        self._turn: Future[float] | None = None
        self._begun = self._rest = 0.0
        self._has_joined = False

    @property
    def deadline(self) -> float:
        """When ``advance`` is due, by time.monotonic()."""
        if self._turn is not None:
            return time.monotonic() + _STILL_RUNNING
        return float("inf") if self._mode is SteeringMode.OFF else self._due

    @property
    def _due(self) -> float:
        return self._begun + (self._rest if self._has_joined else max(_BETWEEN, self._rest))

    def advance(self, mode: SteeringMode, joined: bool) -> None:
        """Begin a turn if one is due: sooner if a subflow has ``joined`` whose path may be known."""
        self._has_joined |= joined and self._steerer.has_learned
        if self._turn is not None and self._turn.done():
            self._rest, self._turn = _SHARE * self._turn.result(), None
        is_off = mode is SteeringMode.OFF and self._mode is SteeringMode.OFF
        if self._turn is None and not is_off and (now := time.monotonic()) >= self._due:
            self._mode, self._begun, self._has_joined = mode, now, False
            self._turn = self._do(lambda: self._steerer.turn(mode))

    def end(self) -> None:
        """Use all paths again."""
        if self._mode is not SteeringMode.OFF:
            self._do(lambda: self._steerer.turn(SteeringMode.OFF)).result()
