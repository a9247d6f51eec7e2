"""What scripts/doctor says to wrong arguments. None of these looks at anything."""

import pytest

from doctor.__main__ import main
from doctor.examination import Role, checks
from tributary.settings.errors import CommandError, Exit

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


@pytest.mark.parametrize("target", ["gateway", "gateway:", ":3128", "gateway:0", "gateway:65536", "::1", "[::1]"])
def test_a_path_needs_a_host_and_a_port(target: str) -> None:
    with pytest.raises(CommandError) as raised:
        main(["--path", target])
    assert raised.value.code == Exit.USAGE
    assert "accepted: HOST:PORT" in str(raised.value)


def test_a_check_that_the_role_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(CommandError) as raised:
        main(["--role", "kernel", "--only", "kernel,listeners"])
    assert str(raised.value) == "--only listeners: accepted with --role kernel: kernel, mptcp"


def test_what_is_left_out_is_a_check_of_the_role() -> None:
    with pytest.raises(CommandError, match="--without listeners: accepted with --role kernel: kernel, mptcp"):
        main(["--role", "kernel", "--without", "listeners"])


def test_a_dry_run_without_a_fix_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--dry-run"])
    assert raised.value.code == Exit.USAGE
    assert "--fix --dry-run" in capsys.readouterr().err


def test_each_role_has_the_checks_that_the_help_tells_of() -> None:
    assert list(checks(Role.KERNEL)) == ["kernel", "mptcp"]
    assert set(checks(Role.GATEWAY)) - set(checks(Role.ROUTER)) == {"listeners", "limits"}
    assert set(checks(Role.ROUTER)) - set(checks(Role.GATEWAY)) == {"routing", "endpoints"}
