"""Which links are dead, by probes. Pure: the clock is the caller's.

A link is taken out when its probes have failed so many times in a row, and another link's, which began no earlier, was
answered: when none is, it is the target that is away, and to take a link out would gain nothing. One answer brings it
back.
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

    @property
    def answers(self) -> bool:
        """Whether the last probe was answered."""
        return self.rtt is not None and self.failures == 0

    @property
    def is_new(self) -> bool:
        """Whether no probe has ended yet."""
        return self.rtt is None and self.failures == 0


METERED = 60.0
"""Seconds between two probes of a metered link that answers, at least."""
QUICK = 0.3
"""Seconds that an answer may take when there is a doubt."""


class Health:
    """The records of the links that are probed."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.records: dict[str, Record] = {}
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
        is_other_well = any(record.answers for name, record in self.records.items() if name not in unsure)
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
        # One that has just failed is asked again at once; one that is out can wait.
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
            self.records[name] = replace(record, failures=0, rtt=rtt, answered=record.began, is_dead=False)
        elif record.failures:
            self.records[name] = replace(record, failures=record.failures + 1)
        else:
            self.records[name] = replace(record, failures=1, failed=record.began)
            self._ask_others(record.began)
        self._take_out()

    def _ask_others(self, since: float) -> None:
        """A link has failed: is it the link, or the target? Those that have not been asked ``since`` know it."""
        for name, record in self.records.items():
            if not record.failures and record.began < since:
                self.records[name] = replace(record, began=float("-inf"))

    def _take_out(self) -> None:
        last = max((record.answered for record in self.records.values() if record.answers), default=None)
        for name, record in self.records.items():
            if last is not None and record.failures >= self._probe.failures and record.failed <= last:
                self.records[name] = replace(record, is_dead=True)
