"""Programs that fail or hang: what they would have shown is not known, and nothing is wrong with the machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor import examination, links, services
from doctor.examination import Role, checks, examine, path_to
from doctor.findings import Finding, State
from tributary.kernel import sysctl

Playing = Callable[[str, str], None]


@pytest.fixture
def playing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playing:
    """Puts a script before the real program of that name."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    (tmp_path / "net/mptcp").mkdir(parents=True)
    (tmp_path / "net/mptcp/enabled").write_text("1")

    def play(program: str, script: str) -> None:
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)

    for program in ("ss", "systemctl", "nft", "ip"):
        play(program, "exit 0")
    return play


def unclear(name: str) -> list[Finding]:
    """The findings of a check but for what is in order, none of which may be wrong."""
    role = Role.GATEWAY if name in checks(Role.GATEWAY) else Role.ROUTER
    found = [each for each in examine(role, [name]) if each.state not in (State.OK, State.NOTE)]
    assert {each.state for each in found} == {State.UNKNOWN}
    return found


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("firewall", "nft"),
        *((name, "ip") for name in ("mptcp", "rp_filter", "routing", "endpoints")),
        *(("listeners", program) for program in ("ss", "systemctl")),
    ],
)
def test_of_a_program_that_fails_or_hangs_nothing_is_found_but_that(
    name: str, program: str, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing(program, "echo Operation not permitted >&2; exit 1")
    (failed,) = unclear(name)
    assert program in failed.message and failed.message.endswith(": Operation not permitted")
    monkeypatch.setattr(examination, "_TIMEOUT", 0.2)
    monkeypatch.setattr(services, "_TIMEOUT", 0.2)
    monkeypatch.setattr(links, "QUICK", 0.2)
    playing(program, "sleep 60")
    (hung,) = unclear(name)
    assert "did not end in 0.2 s" in hung.message


def test_without_the_addresses_of_this_host_no_path_is_wrong(playing: Playing) -> None:
    playing("ip", "echo Operation not permitted >&2; exit 1")
    (found,) = path_to("192.0.2.1", 5124)
    assert (found.check, found.state) == ("path to 192.0.2.1:5124", State.UNKNOWN)


def test_that_there_is_no_route_is_the_kernels_answer(playing: Playing) -> None:
    address = '[{"ifname": "eth0", "addr_info": [{"local": "192.0.2.7", "scope": "global"}]}]'
    no_route = "echo RTNETLINK answers: Network is unreachable >&2; exit 2"
    playing(
        "ip",
        f"""case "$*" in
        *address) echo '{address}' ;;
        *-4*show*) echo '[{{"dst": "default", "dev": "eth0"}}]' ;;
        *get*) {no_route} ;;
        esac""",
    )
    (found,) = examine(Role.ROUTER, ["routing"])
    assert (found.state, found.message) == (State.WRONG, "packets from 192.0.2.7 of eth0 leave nowhere")


@pytest.mark.usefixtures("playing")
@pytest.mark.parametrize(("name", "program"), [("firewall", "nft"), ("mptcp", "ip")])
def test_of_a_program_that_prints_nothing_nothing_is_known(name: str, program: str) -> None:
    (silent,) = unclear(name)
    assert program in silent.message


@pytest.mark.parametrize(
    ("name", "program", "printed"),
    [
        ("routing", "ip", "default via 192.0.2.1"),
        ("endpoints", "ip", '[{"addr_info": [{"local": "192.0.2.7"}]}]'),
        ("firewall", "nft", "table inet filter"),
        ("listeners", "systemctl", "tributary-converter.service"),
    ],
)
def test_of_a_program_that_prints_something_else_nothing_is_known_and_the_other_checks_go_on(
    name: str, program: str, printed: str, playing: Playing
) -> None:
    playing(program, f"echo '{printed}'")
    (found,) = unclear(name)
    assert (found.check, found.fix) == (name, ())


@pytest.mark.usefixtures("playing")
def test_a_firewall_whose_program_was_removed_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _program, **_where: None)
    (found,) = examine(Role.GATEWAY, ["firewall"])
    assert (found.state, found.message) == (State.WRONG, services.WITHOUT_NFT.message)


@pytest.mark.parametrize("folder", ["/usr/sbin", "/nowhere"])
def test_a_program_is_installed_whatever_the_users_path(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = services.has_nft()
    monkeypatch.setenv("PATH", folder)
    assert services.has_nft() is before


@pytest.mark.usefixtures("playing")
def test_without_listeners_or_units_both_converters_are_missing() -> None:
    assert [each.state for each in examine(Role.GATEWAY, ["listeners"])] == [State.WRONG, State.WRONG]


def test_a_converter_waits_where_its_socket_is_and_at_no_other_place(playing: Playing) -> None:
    socket = 'LISTEN 0 9 *:{} *:* users:(("systemd",pid=1,fd=40))'
    units, shown = "tributary-converter.socket enabled enabled", "Listen=[::]:3128 (Stream)"
    playing("systemctl", f'case "$1" in show) echo "{shown}";; *) echo "{units}";; esac')
    for port, state in ((3128, State.OK), (9090, State.WRONG)):
        playing("ss", f"case $1 in *M) echo '{socket.format(port)}';; esac")
        assert [each.state for each in examine(Role.GATEWAY, ["listeners"])] == [state]


def test_a_service_manager_that_does_not_answer_makes_it_no_router(playing: Playing) -> None:
    playing("systemctl", "echo 'tributary-router.service enabled enabled'")
    assert examination.own_role() is Role.ROUTER
    playing("systemctl", "echo Failed to connect to bus >&2; exit 1")
    assert examination.own_role() is Role.GATEWAY


@pytest.mark.usefixtures("fleet_status")
def test_a_fleets_program_that_is_enabled_and_has_ended_is_found_and_no_fleet_is_none(playing: Playing) -> None:
    assert examine(Role.GATEWAY, ["fleet"]) == []
    playing("systemctl", "echo 'tributary-anycast.service enabled enabled'")
    (ended,) = examine(Role.GATEWAY, ["fleet"])
    assert (ended.state, ended.fix) == (State.WRONG, (("systemctl", "start", "tributary-anycast"),))


@pytest.mark.usefixtures("playing")
def test_a_fleets_program_that_was_killed_is_found_also_where_it_is_not_enabled(fleet_status: Path) -> None:
    fleet_status.write_text('{"time": 0, "announced": true, "drained": null, "answers": true}')
    (killed,) = examine(Role.GATEWAY, ["fleet"])
    assert (killed.state, killed.message) == (State.WRONG, "nothing is announced: it does not run")


@pytest.mark.usefixtures("playing")
@pytest.mark.parametrize("written", ["[", "[]", '{"time": "now"}', '{"time": 0}'])
def test_of_a_fleets_status_that_is_damaged_nothing_is_known(written: str, fleet_status: Path) -> None:
    fleet_status.write_text(written)
    (damaged,) = unclear("fleet")
    assert "status.json cannot be read" in damaged.message
