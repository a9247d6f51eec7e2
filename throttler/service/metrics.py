"""The status document as Prometheus metrics.

Labels are names from the policy and of interfaces: their number is that of lines in a file. Tokens, addresses and class
ids come and go with the clients and are no labels; what is known of each of them is summed.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from settings.units import Rate

Answer = dict[str, Any]

_PREFIX = "tributary_throttler"
_TOTALS = (
    ("sessions", "sessions_total", "Sessions that are known."),
    ("subflows", "subflows_total", "Subflows that are known."),
    ("held_subflows", "holds_total", "Subflows that are held to a rate."),
    ("classes", "classes_total", "HTB classes that are installed."),
)
_RULES = (
    ("in_force", "in_force", "Whether the rule works now (1) or not (0)."),
    ("dry", "dry", "Whether the rule only tells what it would hold (1)."),
    ("subflows", "subflows", "Subflows that the rule decides about."),
    ("classes", "classes", "HTB classes of the rule."),
)
_QUOTAS = (
    ("limit_bytes", "bytes", "Bytes that the rule's quota allows each in its period."),
    ("used_bytes", "used", "Bytes used of the rule's quota in this period, of all together."),
    ("worst_used_bytes", "worst_used", "Bytes used of the rule's quota in this period, of the one who used most."),
    ("spent", "spent", "How many have used up the rule's quota in this period."),
)
_CLASSES = (
    ("sent_bytes", "sent_bytes", "Bytes of Ethernet frames that the rule's classes sent."),
    ("sent_packets", "sent_packets", "Packets that the rule's classes sent."),
    ("dropped_packets", "dropped_packets", "Packets that the rule's classes dropped."),
)
_SUBFLOWS = (
    ("sent_bytes", "sent_bytes", "Bytes sent to clients on the path, of sessions that end on this host."),
    ("received_bytes", "received_bytes", "Bytes received from clients on the path, of sessions that end on this host."),
)
_CAPTURE = (
    ("packets", "passed", "Packets that the capture filter passed."),
    ("dropped_packets", "dropped", "Packets lost because the capture's queue was full."),
    ("unreadable_packets", "unreadable", "Packets that could not be read."),
)

_Labels = tuple[str, ...]


class Growth:
    """Sums of counters whose owners come and go.

    The sum over those alive would fall when one of them ends, and Prometheus would take that for a restart. What an
    owner counted after it was last seen is lost.
    """

    def __init__(self) -> None:
        self.sums: Counter[_Labels] = Counter()
        self._last: dict[Hashable, int] = {}

    def see(self, found: Iterable[tuple[Hashable, _Labels, int | None]]) -> None:
        """Take all owners alive now: who, under which labels to sum, and the counter (None is not known)."""
        last = {}
        for owner, labels, value in found:
            if value is None:
                continue
            before = self._last.get(owner, 0)
            # A counter below what it was belongs to a new owner of the same name.
            self.sums[labels] += value - before if value >= before else value
            last[owner] = value
        self._last = last


@dataclass(frozen=True)
class _Page(Collector):
    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


class Exporter:
    """Makes the text of each scrape; keeps the sums from one scrape to the next."""

    def __init__(self) -> None:
        self._classes = {name: Growth() for name, *_ in _CLASSES}
        self._subflows = {name: Growth() for name, *_ in _SUBFLOWS}

    def page(self, answer: Answer) -> bytes:
        """Prometheus' text format 0.0.4 of a status document."""
        self._see(answer)
        return generate_latest(_Page(list(self._metrics(answer))))

    def _see(self, answer: Answer) -> None:
        for name, key, _ in _CLASSES:
            self._classes[name].see(
                (
                    (entry["device"], entry["class"], entry["rule"], entry["owner"]),
                    (entry["rule"], entry["direction"]),
                    entry[key],
                )
                for entry in answer["classes"]
            )
        for name, key, _ in _SUBFLOWS:
            self._subflows[name].see(
                (_subflow_name(session, subflow), (subflow["path"] or "",), subflow[key])
                for session in answer["sessions"]
                for subflow in session["subflows"]
            )

    def _metrics(self, answer: Answer) -> Iterator[Metric]:
        yield InfoMetricFamily(_PREFIX, "The throttler and where it learns of subflows.", {"source": answer["source"]})
        yield _gauge("uptime_seconds", "Time since the throttler's start.", (), [((), answer["uptime_s"])])
        for name, key, text in _TOTALS:
            yield _gauge(name, text, (), [((), answer[key])])
        yield from _of_rules(answer["rules"])
        for name, _, text in _CLASSES:
            yield _counter(f"class_{name}", text, ("rule", "direction"), self._classes[name].sums.items())
        yield _backlog(answer["classes"])
        yield from _of_paths(answer["paths"])
        for name, _, text in _SUBFLOWS:
            yield _counter(f"path_{name}", text, ("path",), self._subflows[name].sums.items())
        for name, key, text in _CAPTURE:
            values = (((interface,), counts[key]) for interface, counts in answer["capture"].items())
            yield _counter(f"capture_{name}", text, ("interface",), values)
        events = (((name,), value) for name, value in answer["counters"].items())
        yield _counter("events", "What the throttler saw and did, by kind.", ("event",), events)


def _of_rules(rules: Sequence[Answer]) -> Iterator[Metric]:
    for name, key, text in _RULES:
        values = (((rule["name"],), float(rule[key])) for rule in rules)
        yield _gauge(f"rule_{name}", text, ("rule",), values)
    matches = (((rule["name"],), rule["matches"]) for rule in rules)
    yield _counter("rule_matches", "Subflows that the rule matched.", ("rule",), matches)
    # Bytes are Prometheus' base unit, also of rates.
    rates = (((rule["name"],), Rate.parse(rule["rate"]).amount / 8) for rule in rules if rule["rate"])
    yield _gauge("rule_rate_bytes_per_second", "Rate that the rule holds to.", ("rule",), rates)
    for name, key, text in _QUOTAS:
        quotas = (((rule["name"], rule["quota"]["period"]), rule["quota"][key]) for rule in rules if rule["quota"])
        yield _gauge(f"rule_quota_{name}", text, ("rule", "period"), quotas)


def _of_paths(paths: Sequence[Answer]) -> Iterator[Metric]:
    labels = ("path", "interface")
    for name, key, text in (("subflows", "subflows", "Subflows on the path."), ("held_subflows", "held", "Held ones.")):
        values = (((path["name"], path["interface"]), path[key]) for path in paths)
        yield _gauge(f"path_{name}", text, labels, values)


def _backlog(classes: Sequence[Answer]) -> Metric:
    waiting: Counter[_Labels] = Counter()
    for entry in classes:
        waiting[entry["rule"], entry["direction"]] += entry["backlog_bytes"] or 0
    return _gauge(
        "class_backlog_bytes", "Bytes that wait in the rule's classes.", ("rule", "direction"), waiting.items()
    )


def _subflow_name(session: Answer, subflow: Answer) -> Hashable:
    ends = subflow["local"], subflow["local_port"], subflow["remote"], subflow["remote_port"]
    return session["token"], *ends


def _gauge(name: str, text: str, labels: _Labels, values: Iterable[tuple[_Labels, float]]) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _counter(name: str, text: str, labels: _Labels, values: Iterable[tuple[_Labels, float]]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family
