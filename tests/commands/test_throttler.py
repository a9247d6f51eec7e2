"""The commands as a user runs them; what needs interfaces and rules is in tests/netns."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tributary.paths import ROOT
from tributary.settings.errors import Exit

GOOD = '[paths.loop]\ninterface = "lo"\n\n[[rules]]\nname = "slow"\npath = "loop"\nrate = "5mbit"\n'


def throttler(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}  # type: ignore[dict-item]
    command = [sys.executable, "-m", "throttler", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)  # type: ignore[call-overload,no-any-return]


def refusal(result: subprocess.CompletedProcess[str], code: Exit) -> str:
    """The one line on standard error of a command that was refused with ``code``."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.rstrip("\n")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(GOOD)
    return file


def test_help_names_every_exit_code() -> None:
    text = throttler("--help").stdout + throttler("run", "--help").stdout
    assert all(f"\n  {code} " in text for code in (0, 64, 66, 69, 71, 75, 77))


def test_a_wrong_policy_is_refused_and_one_that_cannot_be_read_named(policy: Path, tmp_path: Path) -> None:
    policy.write_text(GOOD.replace("5mbit", "-5mbit"))
    line = refusal(throttler("run", "--policy", str(policy)), Exit.USAGE)
    assert line.startswith(f"throttler: {policy}: rules[0].rate = '-5mbit': accepted: a rate above zero with its unit")
    assert "none.toml" in refusal(throttler("run", "--policy", str(tmp_path / "none.toml")), Exit.NO_INPUT)


def test_a_dry_run_needs_neither_root_nor_the_interface_and_prints_the_plan() -> None:
    file = str(ROOT / "tc-policies" / "wired-slow.toml")
    result = throttler("run", "--dry-run", "--policy", file)
    assert result.returncode == 0
    assert result.stdout == (ROOT / "tc-policies" / "golden" / "wired-slow.txt").read_text()
    assert result.stdout == throttler("plan", file).stdout
    assert "this host has no interface wired" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_somebody_else_than_root_is_refused(policy: Path) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        shutil.copyfile(policy, file.name)
        Path(file.name).chmod(0o644)
        options = {"user": 65534, "group": 65534, "extra_groups": []}
        assert "needs root" in refusal(throttler("run", "--policy", file.name, **options), Exit.NO_PERMISSION)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets so far")
def test_a_missing_tool_is_named(policy: Path, tmp_path: Path) -> None:
    result = throttler("run", "--policy", str(policy), env={"PATH": str(tmp_path)})
    assert refusal(result, Exit.UNAVAILABLE) == "throttler: nft is missing: install nftables"


@pytest.mark.parametrize("command", ["set x rate=1mbit", "unset x", "reload"])
def test_every_command_that_asks_has_its_own_help(command: str) -> None:
    result = throttler(command.split()[0], "--help")
    assert result.returncode == 0 and "exit codes:" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run", "--help"),
        ("set x rate", "throttler: set: argument = 'rate': accepted: KEY=VALUE, such as rate=5mbit"),
        ("set x name=y rate=1mbit", "throttler: set: argument = 'name=y': accepted: the rule's name as the first"),
    ],
)
def test_wrong_arguments_are_named(arguments: str, message: str) -> None:
    assert message in refusal(throttler(*arguments.split()), Exit.USAGE)
