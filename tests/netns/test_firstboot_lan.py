"""What a home router does for its LAN besides the converter: its rules and the firewall, loaded as their units do it.

    device 192.168.77.9 --- end0 192.168.77.1 [box] wlan0 10.7.0.2 --- 10.7.0.1 [internet] 203.0.113.2

The Internet has no route to the LAN: what it answers went through the box's own address.
"""

import select
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from experiments.testbed.network import standing_nodes
from image.firstboot.lan import PORT
from tests.netns.home_world import BOX, DEVICE, LAN, Home, heard, listening
from tests.netns.world import datagrams_at, needs
from tests.unit.image.firstboot.cards import HOME
from tributary.api.places import ROUTER

SERVER, MODEM, BOX_OUTSIDE = "203.0.113.2", "10.7.0.1", "10.7.0.2"
_NETWORK = f"""{LAN}
box:wlan0 {BOX_OUTSIDE}/24 -- internet:outer {MODEM}/24
box: ip route add default via {MODEM}
internet: ip address add {SERVER}/32 dev lo
"""

pytestmark = needs("ip", "nft", "sysctl", "tc")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    directory = tmp_path_factory.mktemp("lan")
    with standing_nodes("fbt-", _NETWORK, directory) as nodes:
        yield Home(**nodes, directory=directory)


@pytest.fixture
def router(home: Home) -> Iterator[Home]:
    home.write()
    with home.routing():
        yield home


def test_connections_of_devices_to_any_port_come_to_the_converter_s_listener_which_nobody_else_reaches(
    router: Home,
) -> None:
    with listening(router.box, PORT, transparent=True):
        for port in (22, 80, 443, 3128, 27015, PORT):
            assert heard(router.device, SERVER, port) == f"box {DEVICE} {SERVER}"
        assert heard(router.device, BOX, PORT) == "silence"
        assert heard(router.internet, BOX_OUTSIDE, PORT) == "silence"
    # Without a converter they go past it, with the box's address.
    with listening(router.internet, 80):
        assert heard(router.device, SERVER, 80) == f"internet {BOX_OUTSIDE} {SERVER}"


@pytest.mark.parametrize(
    ("setting", "past", "taken"),
    [
        ("", [25], [24, 26]),
        ('not_bonded_ports = [22, "6000-6002"]\n', [22, 6000, 6002], [25, 5999, 6003]),
        ("not_bonded_ports = []\n", [], [25]),
    ],
)
def test_ports_that_are_not_to_be_bonded_go_past_it(
    home: Home, setting: str, past: list[int], taken: list[int]
) -> None:
    home.write(HOME + setting)
    with home.routing(), listening(home.box, PORT, transparent=True), ExitStack() as services:
        for port in (*past, *taken):
            services.enter_context(listening(home.internet, port))
        assert {heard(home.device, SERVER, port).split(" ")[0] for port in past} <= {"internet"}
        assert {heard(home.device, SERVER, port).split(" ")[0] for port in taken} == {"box"}


def test_devices_reach_the_box_itself_and_a_modem_s_own_page(router: Home) -> None:
    for port in (22, 53, 3128):
        with listening(router.box, port):
            assert heard(router.device, BOX, port) == f"box {DEVICE} {BOX}"
    with listening(router.internet, 80), listening(router.box, PORT, transparent=True):
        assert heard(router.device, MODEM, 80) == f"internet {BOX_OUTSIDE} {MODEM}"


def test_from_outside_nothing_but_ssh_from_private_addresses_gets_in_and_nobody_gets_to_devices(router: Home) -> None:
    for port in (53, 80, 3128):
        with listening(router.box, port):
            assert heard(router.internet, BOX_OUTSIDE, port) == "silence"
    with listening(router.box, 22):
        assert heard(router.internet, BOX_OUTSIDE, 22) == f"box {MODEM} {BOX_OUTSIDE}"
        assert heard(router.internet, BOX_OUTSIDE, 22, source=SERVER) == "silence"
    router.internet.ip("route", "add", "192.168.77.0/24", "via", BOX_OUTSIDE)
    try:
        with listening(router.device, 8080):
            assert heard(router.internet, DEVICE, 8080) == "silence"
    finally:
        router.internet.ip("route", "del", "192.168.77.0/24", "via", BOX_OUTSIDE)


@pytest.mark.parametrize(("quic", "answer"), [("false", "refused"), ("true", "hello")])
def test_browsers_are_told_at_once_to_use_tcp_unless_quic_may_pass(home: Home, quic: str, answer: str) -> None:
    home.write(f"{HOME}quic = {quic}\n")
    there = (SERVER, 443)
    with (
        home.routing(),
        datagrams_at(home.internet, at=there) as service,
        datagrams_at(home.device, to=there) as client,
    ):
        client.send(b"hello")
        readable, _, _ = select.select([service, client], [], [], 1)
        if answer == "hello":
            service.sendto(*service.recvfrom(10))
            assert client.recv(10) == b"hello"
        else:
            assert service not in readable
            with pytest.raises(ConnectionRefusedError):
                client.recv(10)


def _reconciled(home: Home, *shows: str) -> str:
    """What a program says when the router has looked again at what is there."""
    with home.box.entered():
        ROUTER.ask("reload")
    return home.box.run(*shows)


def test_a_rate_that_another_program_changed_is_set_again_by_the_router(home: Home) -> None:
    shown = ("tc", "qdisc", "show", "dev", "wlan0")
    home.write(HOME.replace("[wan.lte]", 'upload = "8mbit"\n[wan.lte]'))
    with home.daemon():
        rate = home.box.run(*shown)
        changed = ("tbf", "rate", "80mbit", "burst", "1mb", "limit", "1mb")
        home.box.run("tc", "qdisc", "change", "dev", "wlan0", "root", "handle", "5453:", *changed)
        assert home.box.run(*shown) != rate
        assert _reconciled(home, *shown) == rate


def test_rules_that_another_program_removed_are_loaded_again_by_the_router_while_the_unit_is_started(
    home: Home,
) -> None:
    tables, table = ("nft", "list", "tables"), ("nft", "list", "table", "inet", "tributary-lan")
    home.write()
    with home.daemon():
        with home.routing():
            rules = home.box.run(*table)
            home.box.run("nft", "delete", "table", "inet", "tributary-lan")
            assert _reconciled(home, *table) == rules
        assert "tributary-lan" not in _reconciled(home, *tables)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_the_unit_takes_everything_back(home: Home, times: int) -> None:
    home.write()
    before = home.traces()
    for _ in range(times):
        home.unit("ExecStart")
    assert home.traces() != before
    assert set(home.unit("ExecStop")) == {0}
    assert home.traces() == before
