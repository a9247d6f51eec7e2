"""Which links are down, by probes. Pure: the caller passes the clock.

A link is taken out after ``probe.failures`` failed probes in a row, if another link's probe that began no earlier was
answered. If no probe is answered, the target is away, and to take a link out would gain nothing.

Each time a link is taken out or comes back, its endpoint goes or comes, and subflows end. So it comes back after
several answers in a row; and if it fails again soon, only after a hold-down time without a failure, which doubles each
time. It comes back with its first answer if no other link is left.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from router.links.quickest import KEPT
from tributary.settings.probing import Probe


@dataclass(frozen=True)
class Record:
    """The probes of one link; all times in seconds.

    ``began`` is the start of the last probe, ``answered`` that of the last one that was answered, ``failed`` that of
    the first failure since.
    """

    began: float = float("-inf")
    failures: int = 0
    rtt: float | None = None
    recent: tuple[float, ...] = ()
    """The round-trip times of the last answers in a row, the newest last."""
    answered: float = float("-inf")
    failed: float = float("-inf")
    is_down: bool = False
    successes: int = 0
    """Answers since the last failure."""
    stable_since: float = float("-inf")
    """When the first probe of these began."""
    probes: int = 0
    unanswered: int = 0
    """Of the probes that have ended."""
    latest: tuple[bool, ...] = ()
    """Whether each of the last LATEST of them was answered, without those that had no answer within QUICK: the link may
    only be slow.
    """

    @property
    def answers(self) -> bool:
        """Whether the last probe was answered."""
        return self.rtt is not None and self.failures == 0

    @property
    def is_new(self) -> bool:
        """Whether no probe has ended yet."""
        return self.rtt is None and self.failures == 0

    @property
    def loss(self) -> float | None:
        """How many of the last probes had no answer, from 0 to 1; None if none has ended yet."""
        return self.latest.count(False) / len(self.latest) if self.latest else None


LATEST = 100
"""Probes of which the loss is counted: a quarter of an hour, by the usual interval."""
IN_A_ROW = 3
"""Answers after which a link comes back at the earliest."""
SOON = 3600.0
"""Seconds after its return in which another failure of a link counts as flapping."""
HOLD, MOST_HOLD = 30.0, 960.0
"""Seconds that a link must answer without a failure after the first such failure, and at most."""
METERED = 60.0
"""Seconds between two probes of a metered link that answers, at least."""
QUICK = 0.3
"""Seconds that an answer to a recheck may take."""


@dataclass(frozen=True)
class _Past:
    """When a link came back last, and how often it failed soon after that."""

    returned: float = float("-inf")
    relapses: int = 0

    def after_failure(self, now: float) -> "_Past":
        return replace(self, relapses=self.relapses + 1 if now - self.returned < SOON else 0)

    @property
    def hold(self) -> float:
        """The hold-down time in seconds."""
        return min(HOLD * 2.0 ** (self.relapses - 1), MOST_HOLD) if self.relapses else 0.0


class Health:
    """The records of the links that are probed."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.records: dict[str, Record] = {}
        self._history: dict[str, _Past] = {}
        self._metered: frozenset[str] = frozenset()
        self._rechecked: set[str] = set()
        self._timed_out: set[str] = set()

    def change_probe(self, probe: Probe) -> None:
        """Ask the same target in another way from now on; all links at once."""
        self._probe = probe
        self.probe_all()

    def recheck_all(self) -> None:
        """Traffic gets no answers any more: probes all links at once, with a short timeout."""
        self._rechecked = set(self.records)
        self.probe_all()

    def probe_all(self) -> None:
        """Makes a probe of each link due now. Their state stays until these end."""
        self.records = {name: replace(record, began=float("-inf")) for name, record in self.records.items()}

    def forget_times(self) -> None:
        """The paths are others: probes all links at once, and measures their times and loss from there on."""
        self.records = {name: replace(record, recent=(), latest=()) for name, record in self.records.items()}
        self.probe_all()

    def timeout(self, name: str) -> float:
        """Seconds that the answer to a link's probe may take."""
        return QUICK if name in self._rechecked else self._probe.timeout.seconds

    @property
    def suspect(self) -> frozenset[str]:
        """Links that did not answer a recheck while another did: not down, but the others are better now."""
        unsure = self._timed_out | self._rechecked
        used = {name: record for name, record in self.records.items() if not record.is_down}
        is_other_well = any(record.answers for name, record in used.items() if name not in unsure)
        return frozenset(self._timed_out & self.records.keys()) if is_other_well else frozenset()

    @property
    def down(self) -> frozenset[str]:
        """The links to take out."""
        return frozenset(name for name, record in self.records.items() if record.is_down)

    @property
    def answers(self) -> bool:
        """Whether the target answers on some link, and has not failed on all of them too often."""
        return any(
            record.rtt is not None and record.failures < self._probe.failures for record in self.records.values()
        )

    @property
    def is_new(self) -> bool:
        """Whether links are probed, and no probe has ended yet."""
        return bool(self.records) and all(record.is_new for record in self.records.values())

    @property
    def silent(self) -> frozenset[str]:
        """Links with too many failures in a row, whatever the cause."""
        return frozenset(name for name, record in self.records.items() if record.failures >= self._probe.failures)

    @property
    def is_silent(self) -> bool:
        """Whether the target is silent on every link: it is away, or all links are."""
        return bool(self.records) and self.silent == self.records.keys()

    @property
    def next_due(self) -> float | None:
        return min(map(self._due, self.records), default=None)

    def _due(self, name: str) -> float:
        record = self.records[name]
        # A link that has just failed is probed again at once, and one that begins to answer; one that is down can wait.
        if record.is_down and 0 < record.successes < IN_A_ROW:
            return record.began + self._probe.timeout.seconds / 4
        if record.failures and not record.is_down:
            return record.began + self._probe.timeout.seconds
        interval = self._probe.interval.seconds
        return record.began + (max(METERED, interval) if name in self._metered else interval)

    def set_links(self, names: Collection[str], metered: Collection[str] = ()) -> None:
        """Probes these links from now on, ``metered`` ones less often. A new one counts as up, and is probed now."""
        self._metered = frozenset(metered)
        self.records = {name: self.records.get(name) or Record() for name in names}
        self._restore()

    def start_due(self, now: float) -> list[str]:
        """The links whose probes are due; the caller sends them."""
        due = [name for name in self.records if self._due(name) <= now]
        self.records |= {name: replace(self.records[name], began=now) for name in due}
        return due

    def record(self, name: str, rtt: float | None) -> None:
        """Takes a link's round-trip time in seconds; None if there was no answer."""
        record = self.records.get(name)
        if record is None:
            return
        unanswered = record.unanswered + (rtt is None)
        record = replace(record, probes=record.probes + 1, unanswered=unanswered)
        if rtt is not None or name not in self._rechecked:
            record = replace(record, latest=(*record.latest, rtt is not None)[-LATEST:])
        if rtt is None and name in self._rechecked:
            self._timed_out.add(name)
        elif rtt is not None:
            self._timed_out.discard(name)
        self._rechecked.discard(name)
        if rtt is not None:
            steady = record.stable_since if record.successes else record.began
            recent = (*record.recent, rtt)[-KEPT:]
            answered = replace(record, failures=0, rtt=rtt, recent=recent, answered=record.began, stable_since=steady)
            self.records[name] = replace(answered, successes=record.successes + 1)
        elif record.failures:
            self.records[name] = replace(record, failures=record.failures + 1)
        else:
            self.records[name] = replace(record, failures=1, failed=record.began, successes=0, recent=())
            self._probe_others(record.began)
        self._take_out()
        self._restore()

    def required(self, name: str) -> float:
        """For how many seconds a link that is down must answer without a failure before it comes back."""
        return self._history.get(name, _Past()).hold

    def _probe_others(self, since: float) -> None:
        """A link has failed: is it the link, or the target? Probes those that were not probed ``since``."""
        for name, record in self.records.items():
            if not record.failures and record.began < since:
                self.records[name] = replace(record, began=float("-inf"))

    def _take_out(self) -> None:
        last = max((record.answered for record in self.records.values() if record.answers), default=None)
        for name, record in self.records.items():
            is_silent = record.failures >= self._probe.failures
            if last is not None and is_silent and record.failed <= last and not record.is_down:
                self._history[name] = self._history.get(name, _Past()).after_failure(record.began)
                self.records[name] = replace(record, is_down=True)

    def _restore(self) -> None:
        records = self.records.values()
        is_alone = not any(record.failures < self._probe.failures for record in records if not record.is_down)
        for name, record in self.records.items():
            if record.is_down and record.answers and (is_alone or self._is_stable(name, record)):
                self._history[name] = replace(self._history.get(name, _Past()), returned=record.began)
                self.records[name] = replace(record, is_down=False)

    def _is_stable(self, name: str, record: Record) -> bool:
        needed = self.required(name)
        return record.successes >= IN_A_ROW and (not needed or record.began - record.stable_since >= needed)
