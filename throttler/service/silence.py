"""Finds throttled subflows that carry nothing any more: the sniffer sees no end of one whose client vanished.

A client out of coverage sends neither FIN nor RST, and a sender that gives up sends none either. A
subflow counts as ended when none of its classes has sent anything for too long.
"""

from throttler.service.report import Report
from throttler.shaping.plan import ClassKey
from throttler.shaping.topology import device
from tributary.mptcp.four_tuple import FourTuple


class Silence:
    """Compares a report with earlier ones; times are in nanoseconds of the reports' clock."""

    def __init__(self) -> None:
        self._counted: dict[ClassKey, tuple[int, int, int]] = {}
        """By class: its minor number, the bytes sent, and since when it has sent no more."""

    def look(self, report: Report, longest: int) -> list[FourTuple]:
        """The subflows that have been silent for ``longest``."""
        self._count(report)
        silent = {key for key, (_, _, since) in self._counted.items() if report.now - since >= longest}
        if not silent:
            return []
        class_keys = report.snapshot.class_keys
        return [
            subflow.name
            for session in report.snapshot.sessions
            if session.token in class_keys
            for subflow in session.subflows
            if report.now - subflow.since >= longest
            and (keys := [key for (_, name), key in class_keys[session.token].items() if name == subflow.name])
            and silent.issuperset(keys)
        ]

    def _count(self, report: Report) -> None:
        counted = {}
        for key, each in report.snapshot.classes.items():
            minor = each.htb.minor
            found = report.measured.classes.get((device(key.interface, key.direction), minor))
            before = self._counted.get(key)
            if found is None:
                continue
            is_same = before is not None and before[:2] == (minor, found.bytes)
            counted[key] = before if before and is_same else (minor, found.bytes, report.now)
        self._counted = counted
