"""Which links are dead, by probes. Pure: the clock is the caller's.

A link is taken out when its probes have failed so many times in a row, and another link's, which began no earlier, was
answered: when none is, it is the target that is away, and to take a link out would gain nothing.

Each time a link is taken out or comes back, its endpoint goes or comes, and subflows end. So it comes back when it has
answered several times in a row; and when it fails soon after that, only when it has answered for some time without a
gap, which doubles each time. It comes back with its first answer if no other link is left.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from tributary.settings.probing import Probe


@dataclass(frozen=True)
class Record:
    """The probes of one link: when the last one began, failures in a row, the last answer's time; all in seconds.

    ``answered`` is when the last probe began that was answered, ``failed`` the first of those that failed since.
    """

    began: float = float("-inf")
    failures: int = 0
    rtt: float | None = None
    answered: float = float("-inf")
    failed: float = float("-inf")
    is_dead: bool = False
    in_a_row: int = 0
    """Answers since the last failure."""
    steady: float = float("-inf")
    """When the first probe of these began."""

    @property
    def answers(self) -> bool:
        """Whether the last probe was answered."""
        return self.rtt is not None and self.failures == 0

    @property
    def is_new(self) -> bool:
        """Whether no probe has ended yet."""
        return self.rtt is None and self.failures == 0


IN_A_ROW = 3
"""Answers after which a link comes back at the earliest."""
SOON = 3600.0
"""Seconds after its return in which another failure of a link counts as flapping."""
HOLD, MOST_HOLD = 30.0, 960.0
"""Seconds that a link must answer without a gap after the first such failure, and after many."""
METERED = 60.0
"""Seconds between two probes of a metered link that answers, at least."""
QUICK = 0.3
"""Seconds that an answer may take when there is a doubt."""


@dataclass(frozen=True)
class _Past:
    """What a link did before: when it came back last, and how often it failed soon after that."""

    returned: float = float("-inf")
    relapses: int = 0

    def after_failure(self, now: float) -> "_Past":
        return replace(self, relapses=self.relapses + 1 if now - self.returned < SOON else 0)

    @property
    def hold(self) -> float:
        """Seconds of answers without a gap that it owes."""
        return min(HOLD * 2.0 ** (self.relapses - 1), MOST_HOLD) if self.relapses else 0.0


class Health:
    """The records of the links that are probed."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.records: dict[str, Record] = {}
        self._past: dict[str, _Past] = {}
        self._metered: frozenset[str] = frozenset()
        self._doubted: set[str] = set()
        self._late: set[str] = set()

    def change_probe(self, probe: Probe) -> None:
        """Ask the same target in another way from now on; all links at once."""
        self._probe = probe
        self.ask_all()

    def doubt(self) -> None:
        """Somebody is no longer answered: ask all links at once, and do not wait for long."""
        self._doubted = set(self.records)
        self.ask_all()

    def ask_all(self) -> None:
        """Probes are due by every link; what is known of them stays until they are answered."""
        self.records = {name: replace(record, began=float("-inf")) for name, record in self.records.items()}

    def timeout(self, name: str) -> float:
        """Seconds that the answer to a probe of this link may take."""
        return QUICK if name in self._doubted else self._probe.timeout.seconds

    @property
    def shunned(self) -> frozenset[str]:
        """Links that did not answer when there was a doubt, while another did: not dead, but others are better now."""
        unsure = self._late | self._doubted
        used = {name: record for name, record in self.records.items() if not record.is_dead}
        is_other_well = any(record.answers for name, record in used.items() if name not in unsure)
        return frozenset(self._late & self.records.keys()) if is_other_well else frozenset()

    @property
    def dead(self) -> frozenset[str]:
        """The links to take out."""
        return frozenset(name for name, record in self.records.items() if record.is_dead)

    @property
    def answers(self) -> bool:
        """Whether the target has answered by some link, and not failed by all that often since."""
        return any(
            record.rtt is not None and record.failures < self._probe.failures for record in self.records.values()
        )

    @property
    def is_new(self) -> bool:
        """Whether links are probed, and no probe has ended yet."""
        return bool(self.records) and all(record.is_new for record in self.records.values())

    @property
    def silent(self) -> frozenset[str]:
        """Links by which so many probes in a row have failed, by whosever fault."""
        return frozenset(name for name, record in self.records.items() if record.failures >= self._probe.failures)

    @property
    def is_silent(self) -> bool:
        """Whether the target has failed to answer by each link that often: it is away, or all links are."""
        return bool(self.records) and self.silent == self.records.keys()

    @property
    def next_due(self) -> float | None:
        """When the next probe is due."""
        return min(map(self._due, self.records), default=None)

    def _due(self, name: str) -> float:
        record = self.records[name]
        # One that has just failed is asked again at once, and one that begins to answer; one that is out can wait.
        if record.is_dead and 0 < record.in_a_row < IN_A_ROW:
            return record.began + self._probe.timeout.seconds / 4
        if record.failures and not record.is_dead:
            return record.began + self._probe.timeout.seconds
        interval = self._probe.interval.seconds
        return record.began + (max(METERED, interval) if name in self._metered else interval)

    def keep(self, names: Collection[str], metered: Collection[str] = ()) -> None:
        """From now on exactly these links are probed; one that is new is taken for well, and asked at once.

        Those of them that are ``metered`` are asked less often.
        """
        self._metered = frozenset(metered)
        self.records = {name: self.records.get(name) or Record() for name in names}
        self._bring_back()

    def begin(self, now: float) -> list[str]:
        """The links whose probes are due, which the caller now sends."""
        due = [name for name in self.records if self._due(name) <= now]
        self.records |= {name: replace(self.records[name], began=now) for name in due}
        return due

    def told(self, name: str, rtt: float | None) -> None:
        """How long the answer over a link took; None if there was none."""
        record = self.records.get(name)
        if record is None:
            return
        if rtt is None and name in self._doubted:
            self._late.add(name)
        elif rtt is not None:
            self._late.discard(name)
        self._doubted.discard(name)
        if rtt is not None:
            steady = record.steady if record.in_a_row else record.began
            answered = replace(record, failures=0, rtt=rtt, answered=record.began, steady=steady)
            self.records[name] = replace(answered, in_a_row=record.in_a_row + 1)
        elif record.failures:
            self.records[name] = replace(record, failures=record.failures + 1)
        else:
            self.records[name] = replace(record, failures=1, failed=record.began, in_a_row=0)
            self._ask_others(record.began)
        self._take_out()
        self._bring_back()

    def needed(self, name: str) -> float:
        """For how many seconds a link that is dead must answer without a gap before it comes back."""
        return self._past.get(name, _Past()).hold

    def _ask_others(self, since: float) -> None:
        """A link has failed: is it the link, or the target? Those that have not been asked ``since`` know it."""
        for name, record in self.records.items():
            if not record.failures and record.began < since:
                self.records[name] = replace(record, began=float("-inf"))

    def _take_out(self) -> None:
        last = max((record.answered for record in self.records.values() if record.answers), default=None)
        for name, record in self.records.items():
            is_silent = record.failures >= self._probe.failures
            if last is not None and is_silent and record.failed <= last and not record.is_dead:
                self._past[name] = self._past.get(name, _Past()).after_failure(record.began)
                self.records[name] = replace(record, is_dead=True)

    def _bring_back(self) -> None:
        records = self.records.values()
        is_alone = not any(record.failures < self._probe.failures for record in records if not record.is_dead)
        for name, record in self.records.items():
            if record.is_dead and record.answers and (is_alone or self._is_steady(name, record)):
                self._past[name] = replace(self._past.get(name, _Past()), returned=record.began)
                self.records[name] = replace(record, is_dead=False)

    def _is_steady(self, name: str, record: Record) -> bool:
        needed = self.needed(name)
        return record.in_a_row >= IN_A_ROW and (not needed or record.began - record.steady >= needed)
