"""What a rotation does while the one before has not ended, and where all numbers are taken."""

import shutil
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from gateway import enrolment
from gateway.registry import Contents
from gateway.settings import GatewaySettings
from gateway.state import State
from gateway.tunnels import Gateway
from tests.refusals import command_error
from tests.unit.gateway.house import LANS, MOMENT, heard, identity, router
from tributary.kernel import connections, wireguard
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check
from tributary.wireguard.interface import Network


@pytest.mark.skipif(not shutil.which("wg"), reason="needs wg")
@pytest.mark.parametrize(("used", "kept", "lost"), [(2, 2, 1), (1, 1, 2)])
def test_a_second_rotation_keeps_the_keys_in_use(
    used: int, kept: int, lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the first one, of which no sync has seen yet that they are used."""
    gateway = Gateway(check({"name": "gateway.example.net"}, GatewaySettings, "test"), State(tmp_path))
    gateway.registry.write("berlin", router(1, following=2))
    there = [heard(tunnel, MOMENT.timestamp()) for tunnel in gateway.tunnels({"berlin": router(used)})]
    monkeypatch.setattr(wireguard, "exists", lambda _: True)
    monkeypatch.setattr(wireguard, "peers", lambda _: there)
    monkeypatch.setattr(enrolment, "reconcile", lambda *_: [])
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)
    found = gateway.registry.read()["berlin"]
    assert found.next and (found.keys, found.next.number) == (identity(kept).keys, 3)
    assert gateway.registry.revoked.days().keys() == set(identity(lost).keys)


@pytest.mark.skipif(not shutil.which("wg"), reason="needs wg")
def test_where_all_numbers_are_taken_a_rotation_at_once_takes_its_own(tmp_path: Path) -> None:
    """Whose keys are known to others gets new ones there as well."""
    settings = check({"name": "gateway.example.net", "network": "10.84.0.0/26"}, GatewaySettings, "test")
    gateway = Gateway(settings.model_copy(update={"interface": "none-here"}), State(tmp_path))
    for number, name in enumerate(("rome", "berlin", "paris"), start=1):
        gateway.registry.write(name, router(number))
    with command_error(Exit.UNAVAILABLE, "is full: 3 routers; revoke some, or remove its old keys at once"):
        enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=True)
    found = gateway.registry.read()["berlin"]
    assert (found.number, found.lan_number, found.next) == (2, 2, None)
    assert gateway.registry.revoked.days().keys() == set(identity(2).keys)


@pytest.mark.skipif(not shutil.which("wg"), reason="needs wg")
def test_several_are_enrolled_and_revoked_in_one_step_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Gateway(check({"name": "gateway.example.net"}, GatewaySettings, "test"), State(tmp_path))
    steps: list[list[str]] = []

    def reconcile(_gateway: Gateway, contents: Contents, *_: object) -> list[str]:
        steps.append(list(contents.routers))
        return []

    monkeypatch.setattr(enrolment, "reconcile", reconcile)
    monkeypatch.setattr(enrolment, "_OFTEN", 2)
    told: list[str] = []
    made = enrolment.enrol(gateway, ["paris", "berlin", "paris"], MOMENT, told.append)
    assert {name: str(each.addresses) for name, each in made.enrolments.items()} == {
        "paris": "10.84.0.16/28",
        "berlin": "10.84.0.32/28",
    }
    assert told == ["keys for 2 of 3 routers are made"] and list(gateway.registry.read()) == ["berlin", "paris"]
    (tmp_path / "routers/rome.new").mkdir()
    with command_error(Exit.SYSTEM, "rome"):
        enrolment.enrol(gateway, ["oslo", "rome"], MOMENT)
    (tmp_path / "routers/rome.new").rmdir()
    for names in (["oslo", "berlin"], ["oslo", "R"]):
        with pytest.raises(CommandError):
            enrolment.enrol(gateway, names, MOMENT)
    with command_error(Exit.USAGE, "oslo: no such router"):
        enrolment.revoke(gateway, ["berlin", "oslo"])
    assert list(gateway.registry.read()) == ["berlin", "paris"]
    enrolment.revoke(gateway, ["berlin", "paris"])
    assert steps == [["paris", "berlin"], ["berlin", "paris", "oslo", "rome"], []]
    assert gateway.registry.read() == {} and len(gateway.registry.revoked.days()) == 18


def test_the_connections_of_hundreds_that_were_enrolled_together_end_by_few_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(command))
        led = "tcp 6 9 src=198.51.100.7 dst=203.0.113.1 sport=4 dport=443 src={} dst=198.51.100.7 sport=443 dport=4\n"
        return subprocess.CompletedProcess(command, 0, led.format("10.84.0.17") + led.format("10.85.0.17"))

    monkeypatch.setattr(connections, "run", run)
    monkeypatch.setattr(connections, "output", lambda _: "")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    lost: list[Network] = list(IPv4Network("10.84.0.0/20").subnets(new_prefix=28))
    lost += list(LANS.subnets(new_prefix=64))[:300]
    assert connections.end_connections(lost) is None
    ended = [command.removeprefix("conntrack --delete --family ") for command in ran if "--delete" in command]
    assert len(ended) == 6 and ended[0] == "ipv4 --orig-src 10.84.0.0/20"
    assert ended[1].startswith("ipv6 --orig-src 2001:db8:1:") and ended[-1] == "ipv4 --reply-src 10.84.0.17"
