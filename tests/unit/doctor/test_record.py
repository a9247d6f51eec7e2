import re
import stat
from pathlib import Path

import pytest

from tests.refusals import command_error

pytest.importorskip("prometheus_client")

from doctor import record
from doctor.examination import Role, checks, recorded
from doctor.findings import Finding, State, ok
from tributary.api.console import Examination
from tributary.paths import ROOT
from tributary.settings.errors import Exit

FOUND = [
    ok("mptcp", "it is on"),
    Finding("settings", State.WRONG, "tcp_rmem is small", fix=(("sysctl", "-w", "a=1 2"), ("sysctl", "--system"))),
    Finding("settings", State.WRONG, "tcp_wmem is small"),
]


def test_findings_are_read_again_as_they_were_and_by_everybody(tmp_path: Path) -> None:
    record.write_findings(file := tmp_path / "run/findings.json", FOUND, "router", 1.5)
    read = Examination.model_validate_json(file.read_bytes())
    assert (read.time, read.role) == (1.5, "router")
    assert [finding.state for finding in read.findings] == ["ok", "wrong", "wrong"]
    assert read.findings[1].fix == ("sysctl -w 'a=1 2'", "sysctl --system")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_metrics_count_findings_by_check_and_state(tmp_path: Path) -> None:
    record.write_metrics(file := tmp_path / "tributary.prom", FOUND, 1.5)
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert lines == [
        'tributary_doctor_findings{check="mptcp",state="ok"} 1.0',
        'tributary_doctor_findings{check="settings",state="wrong"} 2.0',
        "tributary_doctor_time_seconds 1.5",
    ]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with command_error(Exit.SYSTEM, "file/findings.json: cannot be written"):
        record.write_findings(tmp_path / "file/findings.json", FOUND, "gateway", 1.5)


@pytest.mark.parametrize(
    "file", ["kernel-config/systemd/tributary-doctor.service", "ansible/roles/metrics/files/doctor.conf"]
)
@pytest.mark.parametrize("role", [Role.GATEWAY, Role.ROUTER])
def test_a_record_of_the_hour_has_the_checks_of_one_after_a_fix(file: str, role: Role) -> None:
    (left_out,) = re.findall("^ExecStart=/.* --without ([a-z,]+) --record ", (ROOT / file).read_text(), re.MULTILINE)
    assert recorded(role) == [name for name in checks(role) if name not in left_out.split(",")]
