import os
import subprocess
import sys
from pathlib import Path

import pytest


def squid(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "squid", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_command_ends_with_64_and_one_line_for_a_bad_file(tmp_path: Path) -> None:
    file = tmp_path / "squid.toml"
    file.write_text("cache = '1'")
    for command in ("render", "guard", "check", "run"):
        ended = squid(command, str(file))
        assert ended.returncode == 64
        assert ended.stderr.startswith(f"squid: {file}: cache = '1': accepted: 'off'")
        assert ended.stderr.count("\n") == 1
        assert ended.stdout == ""


@pytest.mark.parametrize(("words", "code"), [("render /none.toml", 66), ("fly x", 64), ("render", 64)])
def test_a_missing_file_and_wrong_arguments_have_their_exit_codes(words: str, code: int) -> None:
    assert squid(*words.split()).returncode == code


def test_own_addresses_given_are_those_refused(tmp_path: Path) -> None:
    file = tmp_path / "squid.toml"
    file.write_text("")
    shown = squid("render", "--own", "203.0.113.9", "--own", "2001:db8::9", str(file)).stdout
    assert "acl own_target dst 203.0.113.9/32 64:ff9b::cb00:7109/128 2001:db8::9/128\n" in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root itself")
@pytest.mark.parametrize(("option", "ends"), [([], 77), (["--dry-run"], 0)])
def test_command_needs_root_but_for_a_dry_run(option: list[str], ends: int) -> None:
    golden = Path(__file__).parents[2] / "squid" / "golden" / "gateway.toml"
    script = "import os, runpy, sys; os.setuid(65534); runpy.run_module('squid', run_name='__main__', alter_sys=True)"
    ended = subprocess.run(
        [sys.executable, "-c", script, "run", *option, str(golden)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (ends, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("missing", ["squid", "nft", "mptcpize"])
def test_command_ends_with_69_when_a_tool_is_missing(tmp_path: Path, missing: str) -> None:
    for tool in {"squid", "nft", "mptcpize", "ip", "ss"} - {missing}:
        (tmp_path / tool).symlink_to("/bin/true")
    file = tmp_path / "squid.toml"
    file.write_text("")
    ended = squid("run", str(file), PATH=str(tmp_path))
    assert (ended.returncode, ended.stderr.count("\n")) == (69, 1)
    assert f"{missing} is missing" in ended.stderr
