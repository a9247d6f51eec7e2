"""Whether MPTCP gets through by each link, from what real MPTCP connections came to. Pure: the clock is the caller's.

A middlebox that takes MP_CAPABLE off a SYN leaves plain TCP, one that drops such SYNs leaves nothing (RFC 8684 section
3.7). Inside a tunnel no middlebox sees them; plain TCP there is the gateway's doing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from router.observed import Address
from router.rounds import Rounds
from tributary.settings.hosts import Target

AGAIN, METERED, SOON = 3600.0, 86400.0, 60.0
"""Seconds between two connections by a link, by a metered one, and after one that told nothing."""
TIMEOUT = 2.0
"""Seconds for a connection. Less than the three after which Linux sends a SYN for the third time: when only one without
the option is answered then, it takes MPTCP for blocked, and gives it up for an hour, by all links
(mptcp_active_detect_blackhole of net/mptcp/ctrl.c)."""


class Verdict(StrEnum):
    """What came of the connection."""

    MULTIPATH = "multipath"
    PLAIN = "plain"
    DROPPED = "dropped"


def outside(link: str) -> str:
    """The name of the way past the tunnel; links' names have no blanks."""
    return f"{link} outside"


@dataclass(frozen=True)
class Way:
    """By which interface, from which address, to which server."""

    interface: str
    source: Address
    target: Target
    is_metered: bool = False


class Verdicts(Rounds[Way, Verdict]):
    """One for each way: that of a link's tunnel has the link's name, the one past it that of ``outside``."""

    def __init__(self) -> None:
        super().__init__()
        self._plainly: set[str] = set()

    def keep(self, ways: Mapping[str, Way]) -> set[str]:
        """From now on exactly these are asked about; what is known of one that is another now is forgotten."""
        stale = super().keep(ways)
        self._plainly -= stale
        return stale

    def told(self, name: str, speaks: bool | None, is_refused: bool, now: float) -> bool:
        """Whether the connection speaks MPTCP, None if there is none; returns whether plain TCP should be tried."""
        if not self.is_under_way(name):
            return False
        if speaks is None and not is_refused:
            self._plainly.add(name)
            return True
        self._end(name, None if speaks is None else Verdict.MULTIPATH if speaks else Verdict.PLAIN, now)
        return False

    def told_plainly(self, name: str, answered: bool, now: float) -> None:
        """Whether plain TCP, which followed, was answered."""
        if name in self._plainly:
            self._plainly.discard(name)
            self._end(name, Verdict.DROPPED if answered else None, now)

    def _end(self, name: str, verdict: Verdict | None, now: float) -> None:
        if verdict is None:
            self.found.pop(name, None)
        else:
            self.found[name] = verdict
        later = METERED if self.ways[name].is_metered else AGAIN
        self.ended(name, now + (SOON if verdict is None else later))
