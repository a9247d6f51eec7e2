"""What was found, for those who look later: the console's page, and node_exporter's textfile collector."""

from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from doctor.findings import Finding
from tributary.api import documents
from tributary.api.console import Examination
from tributary.daemons.state_file import write_atomic

_ALL_MAY_READ = 0o644


def write_findings(file: Path, findings: Sequence[Finding], role: str, now: float) -> None:
    """Write them as JSON; ``now`` in seconds since 1970. Raises CommandError, exit 71."""
    found = tuple(documents.Finding(**finding.as_json) for finding in findings)
    made = Examination(time=now, role=role, findings=found)
    write_atomic(file, made.model_dump_json(indent=2).encode(), _ALL_MAY_READ)


def write_metrics(file: Path, findings: Sequence[Finding], now: float) -> None:
    """Write how many there are as Prometheus metrics; raises CommandError, exit 71."""
    registry = CollectorRegistry()
    found = Gauge("tributary_doctor_findings", "What the doctor found.", ("check", "state"), registry=registry)
    for each in findings:
        found.labels(each.check, each.state.value).inc()
    Gauge("tributary_doctor_time_seconds", "When it looked, since 1970.", registry=registry).set(now)
    write_atomic(file, generate_latest(registry), _ALL_MAY_READ)
