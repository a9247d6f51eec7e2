from collections.abc import Mapping
from pathlib import Path

import pytest

from doctor import data_integrity
from doctor.findings import Finding, State
from tributary.paths import ROOT

QUIET = {"DSSNotMatching": 0, "DataCsumErr": 0, "MPTCPRetrans": 40}


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_old_retransmissions_are_ok_and_the_looks_are_as_far_apart_as_the_findings_say() -> None:
    assert only(data_integrity.judge(QUIET, QUIET)).state is State.OK
    looks: list[Mapping[str, int]] = [QUIET, {**QUIET, "DSSNotMatching": 1}]
    slept: list[float] = []
    finding = only(data_integrity.sample(lambda: looks.pop(0), slept.append))
    assert slept == [2.0]
    assert finding.state is State.WRONG


@pytest.mark.parametrize("name", ["DSSNotMatching", "DataCsumErr"])
def test_what_stands_still_is_noted_and_what_grows_is_wrong(name: str) -> None:
    noted = only(data_integrity.judge({**QUIET, name: 7}, {**QUIET, name: 7}))
    assert (noted.state, noted.message[:7]) == (State.NOTE, "7 times")
    assert "of them in the last" not in noted.message
    grown = only(data_integrity.judge({**QUIET, name: 7}, {**QUIET, name: 9}))
    assert grown.state is State.WRONG
    assert f"({name}, 2 of them in the last 2 s)" in grown.message
    assert "net.mptcp.checksum_enabled=1" in grown.advice
    for file in ("kernel-config/mptcp-join.patch", "docs/kernel.md"):
        assert file in grown.advice and (ROOT / file).exists()


@pytest.mark.parametrize(("gained", "states"), [(5, ["ok"]), (6, ["note"])])
def test_only_retransmissions_that_come_as_fast_as_waits_do_are_noted(gained: int, states: list[str]) -> None:
    after = {**QUIET, "MPTCPRetrans": 40 + gained}
    assert [finding.state.value for finding in data_integrity.judge(QUIET, after)] == states


def test_the_counters_are_those_of_mptcp(tmp_path: Path) -> None:
    netstat = tmp_path / "netstat"
    netstat.write_text("TcpExt: A\nTcpExt: 1\nMPTcpExt: DSSNotMatching MPTCPRetrans\nMPTcpExt: 3 0\n")
    assert data_integrity.read(netstat) == {"DSSNotMatching": 3, "MPTCPRetrans": 0}
