"""What was found, for those who look later: the console's page, and node_exporter's textfile collector."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from doctor.findings import Finding
from tributary.api import documents
from tributary.api.console import Examination
from tributary.daemons.metrics import Metrics, write
from tributary.daemons.state_file import write_atomic

_METRICS = Metrics("tributary_doctor")


def write_findings(file: Path, findings: Sequence[Finding], role: str, now: float) -> None:
    """Write them as JSON; ``now`` in seconds since 1970. Raises CommandError, exit 71."""
    found = tuple(documents.Finding(**finding.as_json) for finding in findings)
    made = Examination(time=now, role=role, findings=found)
    write_atomic(file, made.model_dump_json(indent=2).encode(), mode=0o644)


def write_metrics(file: Path, findings: Sequence[Finding], now: float) -> None:
    """Write how many there are as Prometheus metrics; raises CommandError, exit 71."""
    found = Counter((each.check, each.state.value) for each in findings)
    gauges = (
        _METRICS.gauge("findings", "What the doctor found.", ("check", "state"), found.items()),
        _METRICS.gauge("time_seconds", "When it looked, since 1970.", (), [((), now)]),
    )
    write(file, gauges)
