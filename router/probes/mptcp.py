"""Whether MPTCP works on each link, by real MPTCP connections. Pure: the caller passes the clock.

A middlebox that strips MP_CAPABLE from a SYN leaves plain TCP, one that drops such SYNs leaves nothing (RFC 8684
section 3.7). Inside a tunnel no middlebox sees them; plain TCP there is the gateway's own answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from router.probes.schedule import PeriodicChecks
from tributary.kernel.state import Address
from tributary.settings.hosts import Target

AGAIN, METERED, SOON = 3600.0, 86400.0, 60.0
"""Seconds between two connections on a link, on a metered one, and after one without a result."""
TIMEOUT = 2.0
"""Seconds for a connection. Less than the three after which Linux sends a SYN for the third time: when only one without
the option is answered then, it takes MPTCP for blocked, and gives it up for an hour, by all links
(mptcp_active_detect_blackhole of net/mptcp/ctrl.c)."""


class Verdict(StrEnum):
    """The result of a connection."""

    MULTIPATH = "multipath"
    PLAIN = "plain"
    DROPPED = "dropped"


def outside(link: str) -> str:
    """The key of the path outside of the tunnel; links' names have no blanks."""
    return f"{link} outside"


@dataclass(frozen=True)
class MptcpPath:
    """Interface, source address and server of a connection."""

    interface: str
    source: Address
    target: Target
    is_metered: bool = False


class Verdicts(PeriodicChecks[MptcpPath, Verdict]):
    """One result for each path: the key of that in a link's tunnel is the link's name, of the other ``outside``."""

    def __init__(self) -> None:
        super().__init__()
        self._plain_tried: set[str] = set()

    def set_paths(self, paths: Mapping[str, MptcpPath]) -> set[str]:
        """Checks exactly these paths from now on; forgets the results of paths that have changed."""
        stale = super().set_paths(paths)
        self._plain_tried -= stale
        return stale

    def on_mptcp(self, name: str, speaks: bool | None, is_refused: bool, now: float) -> bool:
        """Takes whether the connection speaks MPTCP (None without a connection); returns whether to try plain TCP."""
        if name not in self._running:
            return False
        if speaks is None and not is_refused:
            self._plain_tried.add(name)
            return True
        self._end(name, None if speaks is None else Verdict.MULTIPATH if speaks else Verdict.PLAIN, now)
        return False

    def on_plain_tcp(self, name: str, answered: bool, now: float) -> None:
        """Takes the result of the plain TCP connection that followed."""
        if name in self._plain_tried:
            self._plain_tried.discard(name)
            self._end(name, Verdict.DROPPED if answered else None, now)

    def _end(self, name: str, verdict: Verdict | None, now: float) -> None:
        if verdict is None:
            self.results.pop(name, None)
        else:
            self.results[name] = verdict
        later = METERED if self.paths[name].is_metered else AGAIN
        self.done(name, now + (SOON if verdict is None else later))
