"""The conformance suite against the reference converter and all mutants: each in a network namespace of its own.

A namespace here goes with the process that made it, or when that makes the next. All is on its loopback interface:

    10.88.3.1   the converter, which takes Multipath TCP and wants cookies; clients; servers
    10.88.3.2   other clients
    fd88::1     servers
    10.88.3.99  answers with ICMP "port unreachable"
"""

from pathlib import Path

import pytest

from converter.conformance.checks import ALL
from tests.commands.conformance.mutants import MUTANTS
from tests.commands.conformance.proof import BY_NAME, REFERENCE, Verdicts, prove, surprises

pytestmark = [
    pytest.mark.timeout(900),  # the first test waits for all runs: about two minutes on two cores
    pytest.mark.slow,
]
NAMES = [REFERENCE.name, *(each.name for each in MUTANTS)]
MPTCP = Path("/proc/sys/net/mptcp/enabled")


@pytest.fixture(scope="module")
def found() -> dict[str, Verdicts]:
    if not MPTCP.exists():
        pytest.skip("no MPTCP in this kernel")
    return prove("namespace", NAMES)


def test_reference_converter_passes_every_check_and_none_is_skipped(found: dict[str, Verdicts]) -> None:
    wrong = {name: verdict for name, verdict in found[REFERENCE.name].items() if verdict[0] != "pass"}
    assert wrong == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_fails_the_checks_that_name_its_defect_and_no_others(found: dict[str, Verdicts], name: str) -> None:
    assert surprises(BY_NAME[name], found[name]) == {}


def test_every_check_has_failed_on_some_mutant(found: dict[str, Verdicts]) -> None:
    failed = {check for verdicts in found.values() for check, verdict in verdicts.items() if verdict[0] == "fail"}
    assert {each.name for each in ALL} - failed == set()
