"""Throttled subflows that carry nothing any more: with the sniffer nobody tells the end of one whose client is gone.

A client out of coverage sends neither FIN nor RST, and a sender that gives up sends none either. What its classes have
sent is counted; a subflow all of whose classes have stood still for too long counts as ended.
"""

from throttler.service.report import Report
from throttler.shaping.layout import device
from throttler.shaping.plan import Place
from tributary.mptcp.four_tuple import FourTuple


class Silence:
    """Compares one report with those before it; times are in nanoseconds of their clock."""

    def __init__(self) -> None:
        self._counted: dict[Place, tuple[int, int, int]] = {}
        """The minor number of a class, what it had sent, and since when it has sent no more."""

    def look(self, report: Report, longest: int) -> list[FourTuple]:
        """The subflows that have been silent for ``longest``."""
        self._count(report)
        silent = {place for place, (_, _, since) in self._counted.items() if report.now - since >= longest}
        if not silent:
            return []
        held = report.subject.snapshot.held
        return [
            subflow.name
            for session in report.subject.snapshot.sessions
            if session.token in held
            for subflow in session.subflows
            if report.now - subflow.since >= longest
            and (places := [place for (_, name), place in held[session.token].items() if name == subflow.name])
            and silent.issuperset(places)
        ]

    def _count(self, report: Report) -> None:
        counted = {}
        for place, each in report.subject.snapshot.classes.items():
            minor = each.placed.minor
            found = report.measured.classes.get((device(place.interface, place.direction), minor))
            before = self._counted.get(place)
            if found is None:
                continue
            is_same = before is not None and before[:2] == (minor, found.bytes)
            counted[place] = before if before and is_same else (minor, found.bytes, report.now)
        self._counted = counted
