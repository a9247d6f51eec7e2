"""The status as Prometheus metrics.

Labels are names from the policy and of interfaces: their number is that of lines in a file. Tokens, addresses and class
ids depend on the clients and are no labels; their values are summed. A class that could not be
read is counted as such; where none of a rule's could be read, the rule has none of their series, rather than old ones.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from throttler.service.status import Carried, PathStatus, RuleStatus, Status
from tributary.api.documents import HtbClass
from tributary.daemons.metrics import Labels, Metrics, page
from tributary.settings.units import Rate

_Figures = Sequence[tuple[str, str, str]]
"""A metric's name, the attribute that has its value, and its help text."""

_METRICS = Metrics("tributary_throttler")
_TOTALS: _Figures = (
    ("uptime_seconds", "uptime_s", "Time since the throttler's start."),
    ("sessions", "sessions_total", "Sessions that are known."),
    ("subflows", "subflows_total", "Subflows that are known."),
    ("throttled_subflows", "throttled_total", "Subflows that are throttled; each direction counts."),
    ("classes", "classes_total", "HTB classes that are installed."),
    ("unread_classes", "unread_classes", "HTB classes whose counters could not be read."),
)
_RULES: _Figures = (
    ("active", "active", "Whether the rule works now (1) or not (0)."),
    ("dry_run", "dry_run", "Whether the rule only counts what it would throttle (1)."),
    ("subflows", "subflows", "Subflows that the rule decides about."),
    ("classes", "classes", "HTB classes of the rule."),
)
_QUOTAS: _Figures = (
    ("limit_bytes", "bytes", "Bytes that the rule's quota allows each owner in its period."),
    ("used_bytes", "used", "Bytes used of the rule's quota in this period, by all owners together."),
    ("max_used_bytes", "max_used", "Bytes used of the rule's quota in this period, by the owner that used most."),
    ("exhausted", "exhausted", "Owners that have exhausted the rule's quota in this period."),
)
_CLASSES: _Figures = (
    ("sent_bytes", "sent", "Bytes of Ethernet frames that the rule's classes sent."),
    ("sent_packets", "packets", "Packets that the rule's classes sent."),
    ("dropped_packets", "dropped", "Packets that the rule's classes dropped."),
)
_PATHS: _Figures = (
    ("subflows", "subflows", "Subflows on the path."),
    ("throttled_subflows", "throttled", "Throttled ones."),
)
_ENDING_HERE = "on the path, of sessions that end on this host."
_SUBFLOWS: _Figures = (
    ("sent_bytes", "sent", f"Bytes sent to clients {_ENDING_HERE}"),
    ("received_bytes", "received", f"Bytes received from clients {_ENDING_HERE}"),
)
_CAPTURE: _Figures = (
    ("packets", "passed", "Packets that the capture filter passed."),
    ("dropped_packets", "dropped", "Packets lost because the capture's queue was full."),
    ("unreadable_packets", "unreadable", "Packets that could not be read."),
)


class Growth:
    """Sums of counters whose owners appear and disappear.

    The sum over those alive would fall when one of them ends, and Prometheus would take that for a restart. What an
    owner counted after it was last seen is lost; of one that is alive but could not be read, it comes with the next
    reading.
    """

    def __init__(self) -> None:
        self.sums: Counter[Labels] = Counter()
        self._last: dict[Hashable, int] = {}

    def update(self, found: Iterable[tuple[Hashable, Labels, int | None]]) -> None:
        """Update with all current owners: owner, labels to sum under, and counter (None if unknown)."""
        last = {}
        for owner, labels, value in found:
            before = self._last.get(owner, 0)
            if value is None:
                last[owner] = before
                continue
            # A counter below what it was belongs to a new owner of the same name.
            self.sums[labels] += value - before if value >= before else value
            last[owner] = value
        self._last = last


class Exporter:
    """Makes the text of each scrape; holds the sums from one scrape to the next."""

    def __init__(self) -> None:
        self._classes = {name: Growth() for name, *_ in _CLASSES}
        self._subflows = {name: Growth() for name, *_ in _SUBFLOWS}

    def page(self, status: Status, carried: Iterable[Carried] | None) -> bytes:
        """Prometheus' text format 0.0.4 of a status with all classes, and of what all subflows have carried.

        ``carried`` is None if sockets were not read: what they count until they are is not forgotten.
        """
        self._update_classes(status.classes)
        if carried is not None:
            self._update_subflows(list(carried))
        return page(self._metrics(status))

    def _update_classes(self, classes: Sequence[HtbClass]) -> None:
        for name, attribute, _ in _CLASSES:
            self._classes[name].update(
                (entry.key, (entry.rule, entry.direction), getattr(entry, attribute)) for entry in classes
            )

    def _update_subflows(self, carried: Sequence[Carried]) -> None:
        for name, attribute, _ in _SUBFLOWS:
            self._subflows[name].update(
                (entry.subflow, (entry.path or "",), getattr(entry, attribute)) for entry in carried
            )

    def _metrics(self, status: Status) -> Iterator[Metric]:
        yield _METRICS.info("The throttler and its source of subflow events.", {"source": status.source})
        for name, attribute, text in _TOTALS:
            yield _METRICS.gauge(name, text, (), [((), getattr(status, attribute))])
        yield from _of_rules(status.rules)
        yield from self._of_classes(status.classes)
        yield from _of_paths(status.paths)
        for name, _, text in _SUBFLOWS:
            yield _METRICS.counter(f"path_{name}", text, ("path",), self._subflows[name].sums.items())
        for name, attribute, text in _CAPTURE:
            values = (((interface,), getattr(capture, attribute)) for interface, capture in status.capture.items())
            yield _METRICS.counter(f"capture_{name}", text, ("interface",), values)
        steering = status.steering
        yield _METRICS.gauge(
            "steered_sessions", "Sessions that have a backup by decision.", (), [((), steering.sessions)]
        )
        yield _METRICS.gauge(
            "learned_paths", "Pairs of paths of which the worse is left out.", (), [((), steering.learned)]
        )
        decisions = (((kind,), count) for kind, count in steering.decisions.items())
        yield _METRICS.counter("steering_decisions", "Decisions about sessions' paths, by kind.", ("kind",), decisions)
        events = (((name,), count) for name, count in status.counters.items())
        yield _METRICS.counter("events", "Events of the throttler, by kind.", ("event",), events)

    def _of_classes(self, classes: Sequence[HtbClass]) -> Iterator[Metric]:
        backlog: Counter[Labels] = Counter()
        for entry in classes:
            if entry.backlog is not None:
                backlog[entry.rule, entry.direction] += entry.backlog
        unknown = {(entry.rule, entry.direction) for entry in classes} - set(backlog)
        labels = ("rule", "direction")
        for name, _, text in _CLASSES:
            known = ((key, value) for key, value in self._classes[name].sums.items() if key not in unknown)
            yield _METRICS.counter(f"class_{name}", text, labels, known)
        yield _METRICS.gauge("class_backlog_bytes", "Bytes that wait in the rule's classes.", labels, backlog.items())


def _of_rules(rules: Sequence[RuleStatus]) -> Iterator[Metric]:
    for name, attribute, text in _RULES:
        yield _METRICS.gauge(
            f"rule_{name}", text, ("rule",), (((rule.name,), getattr(rule, attribute)) for rule in rules)
        )
    matches = (((rule.name,), rule.matches) for rule in rules)
    yield _METRICS.counter("rule_matches", "Subflows that the rule matched.", ("rule",), matches)
    # Bytes are Prometheus' base unit, also of rates.
    rates = (((rule.name,), Rate.parse(rule.rate).amount / 8) for rule in rules if rule.rate)
    yield _METRICS.gauge("rule_rate_bytes_per_second", "Rate that the rule limits to.", ("rule",), rates)
    for name, attribute, text in _QUOTAS:
        quotas = (((rule.name, rule.quota.period), getattr(rule.quota, attribute)) for rule in rules if rule.quota)
        yield _METRICS.gauge(f"rule_quota_{name}", text, ("rule", "period"), quotas)


def _of_paths(paths: Sequence[PathStatus]) -> Iterator[Metric]:
    for name, attribute, text in _PATHS:
        values = (((path.name, path.interface), getattr(path, attribute)) for path in paths)
        yield _METRICS.gauge(f"path_{name}", text, ("path", "interface"), values)
