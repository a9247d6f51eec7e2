"""What was found, for those who look later: the console's page, and node_exporter's textfile collector."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from doctor.findings import Finding
from tributary.api.console import Examination
from tributary.daemons.state_file import write_atomic

_ALL_MAY_READ = 0o644


def write_findings(file: Path, findings: Sequence[Finding], role: str, now: float) -> None:
    """Write them as JSON; ``now`` in seconds since 1970. Raises CommandError, exit 71."""
    made = Examination(time=now, role=role, findings=tuple(finding.document for finding in findings))
    write_atomic(file, made.model_dump_json(indent=2).encode(), _ALL_MAY_READ)


def write_metrics(file: Path, findings: Sequence[Finding], now: float) -> None:
    """Write how many there are as Prometheus metrics; raises CommandError, exit 71."""
    write_atomic(file, generate_latest(_Findings(findings, now)), _ALL_MAY_READ)


class _Findings(Collector):
    def __init__(self, findings: Sequence[Finding], now: float) -> None:
        self._findings, self._now = findings, now

    def collect(self) -> Iterator[Metric]:
        found = GaugeMetricFamily("tributary_doctor_findings", "What the doctor found.", labels=("check", "state"))
        for labels, count in Counter((each.check, each.state.value) for each in self._findings).items():
            found.add_metric(labels, count)
        yield found
        yield GaugeMetricFamily("tributary_doctor_time_seconds", "When it looked, since 1970.", value=self._now)
