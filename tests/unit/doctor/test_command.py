import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from doctor import lock
from doctor.__main__ import main, parser
from doctor.examination import Role, checks
from doctor.findings import Finding, State
from tests import ordinary_user
from tests.refusals import command_error, usage_error
from tributary.api import documents
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doctor.__main__.need_root", lambda _why: None)


@pytest.mark.parametrize("target", ["gateway", "gateway:", ":3128", "gateway:0", "gateway:65536", "::1", "[::1]"])
def test_a_path_needs_a_host_and_a_port(target: str) -> None:
    with command_error(Exit.USAGE, "accepted: HOST:PORT"):
        main(["--path", target])


@pytest.mark.parametrize("host", ["a..b", 64 * "a"])
def test_a_path_to_what_no_host_is_called_is_refused(host: str) -> None:
    with command_error(Exit.UNAVAILABLE, f"--path {host}:3128: {host}: "):
        main(["--path", f"{host}:3128"])


@pytest.mark.parametrize("option", ["--only", "--without"])
def test_a_check_that_the_role_does_not_have_is_refused_with_those_it_has(option: str) -> None:
    with pytest.raises(CommandError) as raised:
        main(["--role", "kernel", option, "kernel,listeners"])
    assert str(raised.value) == f"{option} listeners: accepted with --role kernel: kernel, mptcp"


def test_a_dry_run_without_a_fix_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--fix --dry-run" in usage_error(main, ["--dry-run"], capsys)


def test_it_looks_and_records_while_nobody_fixes_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Findings of before a fix would take the place of those of after it."""
    pytest.importorskip("prometheus_client")
    looked = threading.Event()

    def look() -> list[Finding]:
        looked.set()
        return []

    monkeypatch.setattr("doctor.examination.checks", lambda _role: {"mptcp": look})
    record = tmp_path / "findings.json"
    one = threading.Thread(target=main, args=[["--only", "mptcp", "--record", str(record)]], daemon=True)
    with lock.held(record):
        one.start()
        assert not looked.wait(0.5) and not record.exists()
    one.join(10)
    assert looked.is_set() and record.exists()


@ordinary_user.needs_root
def test_no_ordinary_user_keeps_it_from_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr("doctor.examination.checks", lambda _role: {"mptcp": list})
    with ordinary_user.folder() as folder, ordinary_user.holding(folder):
        record = folder / "findings.json"
        one = threading.Thread(target=main, args=[["--only", "mptcp", "--record", str(record)]], daemon=True)
        one.start()
        one.join(10)
        assert record.exists()


def test_a_record_whose_directory_cannot_be_locked_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with command_error(Exit.SYSTEM, "file/findings.json: cannot be written: Not a directory"):
        main(["--only", "mptcp", "--record", str(tmp_path / "file/findings.json")])


@pytest.mark.parametrize(("found", "code"), [
    ([State.OK, State.NOTE], 0),
    ([State.OK, State.WRONG], Exit.WRONG_RESULT),
    ([State.OK, State.UNKNOWN], Exit.UNDECIDED),
    ([State.UNKNOWN, State.WRONG], Exit.WRONG_RESULT),
])  # fmt: skip
def test_what_could_not_be_examined_is_no_good_end(
    found: list[State], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    same = {"mptcp": lambda: [Finding("mptcp", state, "") for state in found]}
    monkeypatch.setattr("doctor.examination.checks", lambda _role: same)
    assert main(["--role", "kernel", "--only", "mptcp", "--json"]) == code
    pytest.importorskip("prometheus_client")
    assert main(["--role", "kernel", "--only", "mptcp", "--metrics", str(tmp_path / "doctor.prom")]) == 0


def test_each_role_has_the_checks_that_the_help_tells_of() -> None:
    assert list(checks(Role.KERNEL)) == ["kernel", "mptcp"]
    assert set(checks(Role.GATEWAY)) - set(checks(Role.ROUTER)) == {"listeners", "fleet", "limits"}
    assert set(checks(Role.ROUTER)) - set(checks(Role.GATEWAY)) == {"routing", "endpoints"}
    told = [parser().format_help().partition("\nchecks:\n")[2].partition("\n\n")[0], manual("only")]
    for name in {*checks(Role.GATEWAY), *checks(Role.ROUTER)}:
        assert all(name in re.findall(r"\w+", text) for text in told), name


def manual(option: str) -> str:
    """What the manual page says of it."""
    page = (ROOT / "debs/man/tributary-doctor.8.md").read_text()
    return page.partition(f"- `--{option}` ")[2].partition("\n- ")[0]


def test_it_needs_no_more_than_pythons_own_library() -> None:
    """A fresh machine has nothing else, and that is where it is asked what is missing."""
    own = "import sys; sys.path.insert(0, {root!r}); import doctor.__main__"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", own.format(root=str(ROOT))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_its_findings_are_documents() -> None:
    finding = Finding("kernel", State.WRONG, "no MPTCP", (("sysctl", "-w", "a=b c"),), "another kernel")
    assert documents.Finding(**finding.as_json).fix == ("sysctl -w 'a=b c'",)
