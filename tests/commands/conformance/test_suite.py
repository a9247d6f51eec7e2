"""The suite against the reference converter on loopback, and against some mutants; the rest are in tests/netns."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from converter.conformance.checks import ALL
from converter.conformance.cli import main
from converter.conformance.verdict import Level
from tests.commands.conformance.mutants import MUTANTS
from tests.commands.conformance.proof import (
    BY_NAME,
    LOOPBACK_ORIGIN,
    REFERENCE,
    Verdicts,
    loopback_world,
    prove,
    surprises,
)
from tests.commands.conformance.reference import Converter
from tests.refusals import usage_error
from tributary.paths import ROOT

SOME = ["RepliesTooEarly", "LosesDataBehindMessage", "ClosesBothWaysOnClientsFIN", "MadeUpMSS", "TakesTwoConnects",
        "Reaches 127.0.0.1", "ResetsBehindErrors", "AnyCookieDoes"]  # fmt: skip
SKIPPED_ON_LOOPBACK = {  # no IPv6 origin, no Multipath TCP, no ICMP error, no Fast Open
    "connect-ipv6", "upstream-is-multipath", "supported-has-multipath", "extended-header-of-multipath-server",
    "multipath-is-requested", "fast-open-cookie-is-relayed", "fast-open-cookie-is-copied", "destination-unreachable",
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, Verdicts]:
    return prove("loopback", [REFERENCE.name, *SOME])


def test_reference_converter_passes_every_check_that_loopback_allows(found: dict[str, Verdicts]) -> None:
    verdicts = found[REFERENCE.name]
    assert {name for name, verdict in verdicts.items() if verdict[0] == "skip"} == SKIPPED_ON_LOOPBACK
    assert surprises(REFERENCE, verdicts) == {}


@pytest.mark.parametrize("name", SOME)
def test_a_mutant_fails_the_checks_that_name_its_defect_and_no_others(found: dict[str, Verdicts], name: str) -> None:
    assert surprises(BY_NAME[name], found[name]) == {}


def test_every_check_has_a_mutant_that_must_fail_it() -> None:
    assert {each.name for each in ALL} - {name for mutant in MUTANTS for name in mutant.fails} == set()


def test_mutants_name_only_checks_that_exist() -> None:
    names = {each.name for each in ALL} | {"*"}
    assert {name for mutant in MUTANTS for name in mutant.fails | mutant.may_fail} - names == set()


def test_every_check_has_a_name_of_its_own_a_clause_and_one_sentence() -> None:
    assert len({each.name for each in ALL}) == len(ALL)
    for each in ALL:
        assert re.fullmatch(r"(\d+(\.\d+)*|A\.\d)", each.clause), each
        assert re.fullmatch(r"[A-Z].*[^.]\.", each.asks), each


def test_the_page_has_the_number_of_checks_by_level() -> None:
    page = (ROOT / "docs" / "convert-conformance.md").read_text()
    shoulds = sum(each.level == Level.SHOULD for each in ALL)
    assert f"{len(ALL)} checks, all MUST but {shoulds} SHOULD, cover" in page


def words(converter: Converter, *options: str) -> list[str]:
    """The command that runs the suite against a converter on loopback."""
    where = ["--converter", f"127.0.0.1:{converter.port}", "--origin", LOOPBACK_ORIGIN, "--cookies"]
    return [sys.executable, "-m", "converter.conformance", *where, *options]


def conformance(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    with BY_NAME[name].kind(loopback_world()) as converter:
        return subprocess.run(
            words(converter, *options), capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
        )


def test_exit_code_is_0_and_json_is_complete_when_all_pass() -> None:
    ran = conformance(REFERENCE.name, "--json", "--only", "connect-*")
    document = json.loads(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    assert document["fail"] == 0
    first = document["checks"][0]
    assert (first["clause"], first["level"], first["result"]) == ("6.2.5", "MUST", "pass")
    assert first["bytes"][-1] == "< 01012263"


def test_exit_code_is_1_and_the_bytes_are_shown_when_a_must_fails() -> None:
    ran = conformance("Reaches 127.0.0.1", "--only", "connect-to-ipv4-loopback")
    assert ran.returncode == 1
    assert "expected  error 1" in ran.stdout
    assert "came      error 96" in ran.stdout
    assert "< 010222631e016000" in ran.stdout


def test_a_failed_should_is_shown_and_exits_with_0() -> None:
    ran = conformance("ReachesUnspecified", "--only", "connect-to-unspecified")
    assert ran.returncode == 0
    assert "failed: 1 SHOULD" in ran.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--converter", "127.0.0.1:5555"],
        ["--converter", "127.0.0.1", "--origin", "127.0.0.1"],
        ["--converter", "127.0.0.1:0", "--origin", "127.0.0.1"],
        ["--converter", "127.0.0.1:5555", "--origin", "nowhere"],
        ["--converter", "127.0.0.1:5555", "--origin", "192.0.2.77"],
        ["--converter", "127.0.0.1:5555", "--origin", "127.0.0.1", "--timeout", "5"],
        ["--converter", "127.0.0.1:5555", "--origin", "127.0.0.1", "--timeout", "0s"],
        ["--converter", "127.0.0.1:5555", "--origin", "127.0.0.1", "--unreachable", "192.0.2.1=x"],
        ["--converter", "127.0.0.1:5555", "--origin", "127.0.0.1", "--source", "192.0.2.77,127.0.0.1"],
        ["--list", "--only", "no-such-check"],
        ["--unknown"],
    ],
)
def test_a_wrong_call_exits_with_64_and_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error(main, arguments, capsys).count("\n") == 1


def test_a_converter_that_is_not_there_exits_with_69(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{unused.getsockname()[1]}"
        assert main(["--converter", where, "--origin", "127.0.0.1"]) == 69
    assert "no connection to the converter" in capsys.readouterr().err


def test_list_names_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [each.name for each in ALL]


def test_an_interrupt_ends_the_run_and_shows_what_there_is() -> None:
    with (
        Converter(loopback_world()) as converter,
        subprocess.Popen(words(converter), cwd=ROOT, stdout=-1, stderr=-1, text=True) as running,
    ):
        assert running.stderr is not None
        assert "connect-ipv4" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        shown, said = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "connect-ipv4" in shown
    assert "Traceback" not in said


def test_a_copy_of_the_folder_runs_alone(tmp_path: Path) -> None:
    copy = tmp_path / "conformance"
    copy.symlink_to(ROOT / "converter" / "conformance")
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
               "from conformance.cli import main; sys.exit(main(['--list']))"]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert len(ran.stdout.splitlines()) == len(ALL)


def test_most_checks_are_musts() -> None:
    assert sum(each.level == Level.MUST for each in ALL) >= 0.9 * len(ALL)
