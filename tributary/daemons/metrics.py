"""Metrics in Prometheus' text format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from tributary.daemons.state_file import write_atomic

Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, float]]
"""The values of a metric's labels, and its value for them."""


@dataclass(frozen=True)
class Metrics:
    """Makes metrics whose names begin with a prefix."""

    prefix: str

    def info(self, text: str, values: dict[str, str]) -> Metric:
        """A metric that is always 1, for its labels."""
        return InfoMetricFamily(self.prefix, text, values)

    def gauge(self, name: str, text: str, labels: Labels, values: Values) -> Metric:
        """``text`` is its help."""
        return _filled(GaugeMetricFamily(f"{self.prefix}_{name}", text, labels=labels), values)

    def counter(self, name: str, text: str, labels: Labels, values: Values) -> Metric:
        """The format adds ``_total`` to its name."""
        return _filled(CounterMetricFamily(f"{self.prefix}_{name}", text, labels=labels), values)


def page(metrics: Iterable[Metric]) -> bytes:
    """The text format 0.0.4."""
    return generate_latest(_Page(list(metrics)))


def write(file: Path, metrics: Iterable[Metric]) -> None:
    """Write it for node_exporter's textfile collector; raises CommandError, exit 71."""
    write_atomic(file, page(metrics), mode=0o644)


@dataclass(frozen=True)
class _Page(Collector):
    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
