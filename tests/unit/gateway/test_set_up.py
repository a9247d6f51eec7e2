"""What another program takes away of a gateway is there again with the next sync, which says so."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from gateway import cli, forwarding, tracking, tunnels
from gateway.settings import GatewaySettings
from gateway.state import UNCHANGED, State
from gateway.tunnels import Gateway
from tests.refusals import command_error
from tributary.kernel import nft, sysctl, wireguard
from tributary.settings.errors import Exit
from tributary.settings.files import check
from tributary.wireguard.interface import PeerStatus

ALL = {"tunnel", "route", "4", "6"}
"""What there is while nobody has taken anything away; the numbers are IP versions that are forwarded."""


class Kernel:
    """Has some of it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.there, self.synced = gateway, set(ALL), list[bool]()

    def exists(self, _name: str) -> bool:
        return True

    def peers(self, _name: str) -> Sequence[PeerStatus]:
        return ()

    def is_set_up(self, _name: str, *shape: object) -> bool:
        return "tunnel" in self.there and shape == (["10.84.0.1/16"], 1420, 51840)

    def has_route(self, _name: str, _network: IPv6Network) -> bool:
        return "route" in self.there

    def forwards(self, version: int = 4) -> bool:
        return str(version) in self.there

    def set_addresses(self, *_: object) -> None:
        self.there.add("tunnel")

    def add_route(self, *_: object) -> None:
        self.there.add("route")

    def forward(self, _on: bool) -> None:
        self.there.add("4")

    def forward6(self, _on: bool, _hearing: Sequence[str]) -> None:
        self.there.add("6")

    def ra_accepting_interfaces(self) -> list[str]:
        return ["eth1"]

    def sync(self, _gateway: Gateway, *, always: bool = False) -> list[str]:
        self.synced.append(always)
        return ["synced"]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    settings = check({"name": "gateway.example.net", "lan_prefix": "2001:db8:1::/48"}, GatewaySettings, "test")
    made = Kernel(Gateway(settings, State(tmp_path)))
    for module, names in (
        (wireguard, ("exists", "peers", "is_set_up", "has_route", "set_addresses", "add_route")),
        (forwarding, ("forwards", "forward", "forward6", "ra_accepting_interfaces")),
        (tunnels, ("sync",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(made, name))
    return made


def test_where_nothing_is_missing_a_sync_is_one(kernel: Kernel) -> None:
    assert tunnels.keep_up(kernel.gateway) == ["synced"] and kernel.synced == [False]


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("tunnel", "was down or without 10.84.0.1/16, mtu 1420 or port 51840: set up again"),
        ("route", "2001:db8:1::/48 was not routed there"),
        ("4", "IPv4 was not forwarded any more: it is again, for tunnels and bridges alone"),
        ("6", "IPv6 was not forwarded any more: it is again, for tunnels and bridges alone"),
    ],
)
def test_what_was_taken_away_is_set_up_again_and_said(kernel: Kernel, gone: str, said: str) -> None:
    kernel.there.remove(gone)
    note, *rest = tunnels.keep_up(kernel.gateway)
    assert said in note and rest == ["synced"]
    assert kernel.there == ALL and kernel.synced == [True]


def test_a_forwarding_that_others_have_switched_off_is_for_tunnels_alone_from_then_on(kernel: Kernel) -> None:
    """And ends with them; whoever heard advertisements before goes on."""
    kernel.gateway.state.note(UNCHANGED)
    kernel.there -= {"4", "6"}
    tunnels.keep_up(kernel.gateway)
    assert kernel.gateway.for_tunnels == [4, 6]
    assert kernel.gateway.state.changes.hearing == ["eth1"]


def test_a_damaged_list_of_what_was_changed_is_set_aside_before_another_takes_its_place(
    kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "changes.json").write_text("{")
    kernel.there -= {"4"}
    _, note, *rest = tunnels.keep_up(kernel.gateway)
    assert "changes.json.broken" in note and rest == ["synced"]
    assert (tmp_path / "changes.json.broken").read_text() == "{" and kernel.gateway.for_tunnels == [4]


def test_down_removes_what_up_has_created_whatever_the_settings_call_it_by_then(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a restart after the key ``interface`` was changed: without rules, routers would reach anything here."""
    there = _interfaces(monkeypatch)
    tunnels.up(kernel.gateway)
    assert there == {"eth0", "tributary"}
    renamed = kernel.gateway.settings.model_copy(update={"interface": "wg9"})
    tunnels.down(replace(kernel.gateway, settings=renamed))
    assert there == {"eth0"}
    tunnels.up(replace(kernel.gateway, settings=renamed))
    tunnels.down(kernel.gateway)
    assert there == {"eth0"}


def test_up_takes_no_interface_that_it_has_not_created(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of wg-quick(8): it would lose its keys and peers."""
    there = _interfaces(monkeypatch)
    there.add("tributary")
    with command_error(Exit.IN_USE, "tributary: there is such an interface"):
        tunnels.up(kernel.gateway)
    assert there == {"eth0", "tributary"} and not kernel.gateway.state.changes.is_noted
    there.discard("tributary")
    for _ in range(2):
        assert tunnels.up(kernel.gateway) == ["synced"]


def test_another_name_of_the_interface_counts_from_the_next_start_on(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then a router that is revoked is shut out of the one that is there."""
    _interfaces(monkeypatch)
    settings = tmp_path / "gateway.toml"
    settings.write_text('name = "gateway.example.net"\ninterface = "wg0"\n')
    tunnels.up(kernel.gateway)
    assert cli.open_gateway(settings, tmp_path).settings.interface == "tributary"
    tunnels.down(cli.open_gateway(settings, tmp_path))
    assert cli.open_gateway(settings, tmp_path).settings.interface == "wg0"


def test_down_needs_no_settings_for_what_up_has_created(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when a service is stopped, or its package removed, after its settings were broken."""
    there, settings = _interfaces(monkeypatch), tmp_path / "gateway.toml"
    monkeypatch.setattr(cli, "need_root", lambda _: None)
    command = ["down", "--settings", str(settings), "--state-directory", str(tmp_path)]
    settings.write_text("port = 0\n")
    with command_error(Exit.USAGE, "port"):
        cli.main(command)
    tunnels.up(kernel.gateway)
    assert there == {"eth0", "tributary"}
    assert cli.main([*command, "--dry-run"]) == 0 and there == {"eth0", "tributary"}
    assert cli.main(command) == 0 and there == {"eth0"}
    assert "port" in capsys.readouterr().err and not kernel.gateway.state.changes.is_noted
    tunnels.up(kernel.gateway)
    settings.unlink()
    assert cli.main(command) == 0 and there == {"eth0"}


def _interfaces(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Those of a machine, as a gateway creates and removes them."""
    there = {"eth0"}
    monkeypatch.setattr(wireguard, "exists", there.__contains__)
    monkeypatch.setattr(wireguard, "create", there.add)
    monkeypatch.setattr(wireguard, "remove", there.discard)
    for module, name in ((nft, "execute"), (tracking, "put_back")):
        monkeypatch.setattr(module, name, lambda *_: None)
    return there


def test_an_interface_that_goes_while_all_are_looked_at_hears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    for name, value in {"all": "1", "eth0": "1", "eth1": "0", "eth2.10": "1", "veth7": None}.items():
        file = tmp_path / "net/ipv6/conf" / name / "accept_ra"
        file.parent.mkdir(parents=True)
        # What cannot be read, as it would be then.
        file.mkdir() if value is None else file.write_text(f"{value}\n")
    assert forwarding.ra_accepting_interfaces() == ["eth0", "eth2.10"]


def test_whether_an_interface_hears_routers_is_put_back_unless_somebody_has_changed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def number(name: str) -> Path:
        file = tmp_path / "net/ipv6/conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    number("all/forwarding").write_text("0\n")
    eth0, eth1 = number("eth0/accept_ra"), number("eth1/accept_ra")
    for each in (eth0, eth1):
        each.write_text("1\n")
    forwarding.forward6(True, ["eth0", "eth1", "gone"])
    assert [eth0.read_text(), eth1.read_text(), forwarding.forwards(6)] == ["2\n", "2\n", True]
    eth1.write_text("0\n")
    forwarding.forward6(True, ["eth0", "eth1"])
    forwarding.forward6(False, ["eth0", "eth1", "gone"])
    assert [eth0.read_text(), eth1.read_text(), forwarding.forwards(6)] == ["1\n", "0\n", False]
