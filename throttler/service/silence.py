"""Throttled subflows that carry nothing any more: with the sniffer nobody tells the end of one whose client is gone.

A client out of coverage sends neither FIN nor RST, and a sender that gives up sends none either. What its classes have
sent is counted; a subflow all of whose classes have stood still for too long counts as ended.
"""

from throttler.service.report import Report
from throttler.shaping.plan import ClassKey
from throttler.shaping.topology import device
from tributary.mptcp.four_tuple import FourTuple


class Silence:
    """Compares one report with those before it; times are in nanoseconds of their clock."""

    def __init__(self) -> None:
        self._counted: dict[ClassKey, tuple[int, int, int]] = {}
        """The minor number of a class, what it had sent, and since when it has sent no more."""

    def look(self, report: Report, longest: int) -> list[FourTuple]:
        """The subflows that have been silent for ``longest``."""
        self._count(report)
        silent = {key for key, (_, _, since) in self._counted.items() if report.now - since >= longest}
        if not silent:
            return []
        class_keys = report.subject.snapshot.class_keys
        return [
            subflow.name
            for session in report.subject.snapshot.sessions
            if session.token in class_keys
            for subflow in session.subflows
            if report.now - subflow.since >= longest
            and (keys := [key for (_, name), key in class_keys[session.token].items() if name == subflow.name])
            and silent.issuperset(keys)
        ]

    def _count(self, report: Report) -> None:
        counted = {}
        for key, each in report.subject.snapshot.classes.items():
            minor = each.htb.minor
            found = report.measured.classes.get((device(key.interface, key.direction), minor))
            before = self._counted.get(key)
            if found is None:
                continue
            is_same = before is not None and before[:2] == (minor, found.bytes)
            counted[key] = before if before and is_same else (minor, found.bytes, report.now)
        self._counted = counted
