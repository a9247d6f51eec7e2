"""The native converter's command line and configuration: what is wrong is named before anything is touched."""

import tempfile
from pathlib import Path

import pytest

from tests.netns.converter_world import ALL, LISTENERS, World, needs_tools, run, start

pytestmark = needs_tools

# Each with what its one line must have.
WRONG = {
    "unknown-key": ("[limits]\nconnection = 5", ["converter.toml:2", "connection", "unknown field"]),
    "unknown-table": ("[limit]\n", ["converter.toml:1", "limit", "unknown field"]),
    "no-unit": ('[timeouts]\nidle = "10"', ["converter.toml:2", "timeouts.idle", '"10"', "with its unit"]),
    "number-for-time": ("[timeouts]\nidle = 10", ["timeouts.idle", "10"]),
    "zero-time": ('[timeouts]\ndrain = "0s"', ["timeouts.drain", "above zero"]),
    "wrong-type": ('[limits]\nconnections = "many"', ["limits.connections", '"many"']),
    "negative": ("[limits]\nconnections = -1", ["limits.connections", "-1"]),
    "too-small": ('[limits]\nbuffer = "1B"', ["limits.buffer", "4KiB"]),
    "no-toml": ("[limits", ["converter.toml:1"]),
    "unknown-kind": ('[[listen]]\nkind = "ftp"\naddress = "127.0.0.1:1"', ["listen[0].kind", "ftp", "socks5"]),
    "no-port": ('[[listen]]\nkind = "http"\naddress = "127.0.0.1"', ["listen[0].address", "127.0.0.1"]),
    "open-proxy": ('[[listen]]\nkind = "http"\naddress = "[::]:3128"', ["listen[0].address", "open proxy"]),
    "whole-internet": ('[clients]\nnetworks = ["0.0.0.0/0"]', ["clients.networks", "0.0.0.0/0", "open proxy"]),
    "no-listener": ("listen = []", ["listen", "one listener or more"]),
    "twice": (ALL + LISTENERS.partition('[[listen]]\nkind = "socks5')[0], ["no other listener"]),
    "gateway": (ALL.replace('"tproxy"\n', '"tproxy"\nvia_gateway = true\n', 1), ["via_gateway", "[gateway]"]),
    "redirect-with-mptcp": (ALL + "mptcp = true\n", ["mptcp", "redirect"]),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_configuration_ends_with_64_and_one_line_and_nothing_is_touched(conv: World, mistake: str) -> None:
    config, parts = WRONG[mistake]
    with tempfile.TemporaryDirectory(dir=conv.directory) as name:
        file = Path(name, "converter.toml")
        file.write_text(config)
        for arguments in (["--check"], []):
            done = run("--config", str(file), *arguments)
            assert (done.returncode, done.stdout) == (64, "")
            assert len(done.stderr.splitlines()) == 1
            assert done.stderr.startswith("tributary-converter: ")
            assert all(part in done.stderr for part in parts), done.stderr
        assert [entry.name for entry in Path(name).iterdir()] == ["converter.toml"]


def test_check_says_nothing_of_a_right_configuration_and_binds_nothing(conv: World) -> None:
    with conv.converter(ALL) as running:
        # Its ports are taken, and its control socket stays.
        done = run("--check", "--config", str(running.directory / "converter.toml"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert running.status()["pid"] == running.pid


def test_exit_codes_tell_what_is_wrong(conv: World) -> None:
    assert run("--config", "/nonexistent").returncode == 66
    assert run("--no-such-option").returncode == 64
    assert run("status", "--socket", "/nonexistent").returncode == 69
    assert run("--help").returncode == run("--version").returncode == 0
    with conv.converter(ALL), tempfile.TemporaryDirectory(dir=conv.directory) as directory:
        second = start(conv.gateway, Path(directory), ALL)
        assert second.popen.wait(10) == 75
        assert "3128" in second.log
        assert "Address already in use" in second.log
