from dataclasses import replace
from pathlib import Path

import pytest

import command.cli
from command import show
from gateway import report
from gateway.cli import main
from gateway.counters import NO_TRAFFIC, counted
from gateway.peers import by_key, tunnels
from gateway.registry import Registry
from gateway.settings import GatewaySettings
from gateway.state import State
from tests.refusals import command_error, usage_error
from tests.unit.gateway.house import LANS, NETWORK, heard, of, router
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check

BERLIN = of("berlin", 1)
NOW = 1_790_000_000.0


WRONG: dict[str, list[object]] = {
    "name": ["gateway.example.net:51840", "203.0.113.5:51840", "[2001:db8::5]", "-"],
    "port": [0],
    "network": ["10.84.0.0/28", "10.0.0.0/7", "10.84.0.1/16", "fd00::/64"],
    "lan_prefix": ["2001:db8:1::/64", "2001:db8:1::1/48", "fe80::/48", "10.0.0.0/8"],
    "interface": ["longer-than-fifteen", "a b"],
    "mtu": [1279],
    "converter_ports": [[0], 5124, [True]],
    "dns": ["yes"],
    "private_targets": [["8.0.0.0/8"]],
    "refused_ports": [[25]],
    "connections": [63, 65537],
    "dns_rate": [0],
    "never_forwarded": [["22"], "tcp/22"],
    "names": [1],
}
"""Values that are not accepted, by their keys; there is no key ``names``."""


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_a_wrong_setting_is_refused_by_its_name(key: str, value: object) -> None:
    with command_error(Exit.USAGE, f"card: {key}"):
        check({"name": "gateway.example.net", key: value}, GatewaySettings, "card")


@pytest.mark.parametrize("name", ["gateway.example.net", "203.0.113.5", "2001:db8::5"])
def test_a_gateway_is_found_by_a_name_or_an_address(name: str) -> None:
    assert check({"name": name}, GatewaySettings, "card").name == name


def test_check_reads_settings_and_routers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "gateway.toml"
    command = ["check", "--settings", str(settings), "--state-directory", str(tmp_path)]
    with command_error(Exit.NO_INPUT):
        main(command)
    settings.write_text('name = "gateway.example.net"\n')
    assert main(command) == 0
    assert capsys.readouterr().out == "valid\n"
    Registry(State(tmp_path).routers, NETWORK).write("far", router(4096))
    with pytest.raises(CommandError, match="no block 4096"):
        main(command)


def test_help_names_every_key_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for word in (*(f"{key}:" for key in GatewaySettings.model_fields), "exit codes:", "sync", "/etc/tributary"):
        assert word in text


def test_the_private_key_is_made_once_and_for_nobody_else(tmp_path: Path) -> None:
    state = State(tmp_path / "gateway")
    key = state.private_key()
    assert State(tmp_path / "gateway").private_key() == key
    assert (tmp_path / "gateway/private.key").stat().st_mode & 0o777 == 0o600


def test_a_tally_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "traffic.json").write_text('{"berlin": {"received": "much"}}')
    with pytest.raises(CommandError, match="correct it or remove it"):
        State(tmp_path).totals()


def test_a_link_is_up_until_its_last_handshake_is_180_seconds_old() -> None:
    there = by_key(
        [heard(BERLIN[0], NOW - 179), heard(BERLIN[1], NOW - 10, 2_000_000, 30), heard(BERLIN[2], NOW - 180)]
    )
    routers = {"berlin": router(1), "rome": router(3, forward=["tcp/443"])}
    made = tunnels(routers, NETWORK, LANS)
    totals = counted({}, made, there)
    berlin, rome = report.routers(routers, made, there, totals, NOW)
    assert [tunnel.link for tunnel in berlin.up] == [None, 1]
    assert (berlin.up[1].address, berlin.up[1].outside) == ("10.84.0.18", "203.0.113.9:4000")
    assert (berlin.last_seen, berlin.received, berlin.sent) == (10.0, 2_000_000, 30)
    assert (rome.last_seen, rome.up, rome.number, rome.forwards) == (None, (), 3, ("tcp/443",))
    assert (berlin.links_up, rome.links_up, berlin.prefix) == (1, 0, "2001:db8:1:1::/64")
    shown = {column.title: [column.cell(each) for each in (berlin, rome)] for column in show.ROUTERS}
    assert (shown["seen"], shown["forwards"]) == (["10 s", "never"], ["", "tcp/443"])
    assert shown["links from"][0].endswith(", 1: 203.0.113.9:4000") and shown["received"][0] == "2.00 MB"


def test_who_is_away_was_still_seen_and_nobody_in_the_future() -> None:
    totals = {"berlin": replace(NO_TRAFFIC, last_seen=NOW - 90000)}
    (away,) = report.routers({"berlin": router(1)}, BERLIN, {}, totals, NOW)
    assert (away.up, away.last_seen) == ((), 90000)
    totals = {"berlin": replace(NO_TRAFFIC, last_seen=NOW + 60)}
    (ahead,) = report.routers({"berlin": router(1)}, BERLIN, {}, totals, NOW)
    assert ahead.last_seen == 0
    there = by_key([heard(BERLIN[0], NOW - 170), heard(BERLIN[1], NOW + 3600)])
    (again,) = report.routers({"berlin": router(1)}, BERLIN, there, totals, NOW)
    assert [tunnel.link for tunnel in again.up] == [None]


def test_when_a_router_was_seen_is_right_again_after_the_clock_was_ahead() -> None:
    before = {"berlin": replace(NO_TRAFFIC, last_seen=NOW + 9e6), "rome": replace(NO_TRAFFIC, last_seen=NOW - 5)}
    totals = counted(before, [*BERLIN, *of("rome", 2)], by_key([heard(BERLIN[0], NOW), heard(BERLIN[1], NOW - 9)]))
    assert {name: total.last_seen for name, total in totals.items()} == {"berlin": NOW, "rome": NOW - 5}


@pytest.mark.parametrize("ports", ["27015", "tcp", "tcp/0", "sctp/5", "tcp/9-8"])
def test_ports_are_given_with_their_protocol(ports: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "tcp/ or udp/ and a port" in usage_error(command.cli.main, ["forward", "berlin", ports], capsys)


@pytest.mark.parametrize("content", [b"", b"\0" * 45, b"AAAA", b"\xff"])
def test_a_damaged_private_key_is_named_with_what_mends_it_and_stays(tmp_path: Path, content: bytes) -> None:
    """No other key is made in its place: all routers know the one that is lost."""
    file = tmp_path / "private.key"
    file.write_bytes(content)
    with command_error(Exit.SYSTEM, "private.key: "):
        State(tmp_path).private_key()
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    "text", ["", "[]", '{"berlin": 5}', '{"berlin": {}}', '{"berlin": {"counters": {"k": [1]}}}', "\0\0"]
)
def test_damaged_totals_are_renamed_and_counting_starts_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "traffic.json").write_text(text)
    told: list[str] = []
    state = State(tmp_path)
    assert state.totals(told.append) == {} and "traffic.json.broken" in told[0]
    state.save_totals({"berlin": replace(NO_TRAFFIC, received=5)})
    assert state.totals()["berlin"].received == 5
