"""A home router whose sessions go through tunnels, one for each link, to a gateway that knows it by its keys.

The world is that of router_world.py. The provider lets nothing of TCP pass outside of tunnels, and is the gateway, too.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from experiments.home.traffic import Call
from tests.netns.console_world import console
from tests.netns.router_world import DSL, LTE, OFTEN, SERVER_4, Transfer, World, world
from tests.netns.world import Child, eventually, in_namespace, needs, process, ready, run
from tributary.kernel import wireguard
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Endpoint, Enrolment, text
from tributary.wireguard.interface import Interface, Peer

pytestmark = [pytest.mark.slow, needs("wg", "wireguard-go")]

NETWORK, ANOTHER = IPv4Network("10.84.0.0/16"), IPv4Network("10.85.0.0/16")
BLOCK = addresses.block_of(NETWORK, 1)
ELSE, BY_DSL, BY_LTE = (str(addresses.tunnel_address(BLOCK, place)) for place in range(3))
MIRROR = "9000"
# Interfaces of WireGuard meet in one folder of all namespaces.
PREFIX, GATEWAY = f"t{os.getpid()}-", f"g{os.getpid()}"


def settings_for(*enrolments: Enrolment) -> str:
    wans = '[wan.dsl]\ninterface = "dsl"\n[wan.lte]\ninterface = "lte"\n'
    return f'{wans}[probe]\n{OFTEN}[tunnels]\nprefix = "{PREFIX}"\n' + "".join(map(text, enrolments))


@dataclass(frozen=True)
class House(World):
    """With a gateway, at which the router is enrolled."""

    enrolment: Enrolment

    @property
    def enrolled(self) -> str:
        """The router's settings."""
        return settings_for(self.enrolment)

    @property
    def inside(self) -> str:
        """The gateway's address in the tunnels."""
        return str(self.enrolment.inside)

    @contextmanager
    def at_work(self, text: str = "") -> Iterator[Child]:
        """The daemon, with tunnels in which the gateway answers."""
        with self.daemon(text or self.enrolled) as child:
            eventually(lambda: PREFIX in self.default())
            yield child

    @contextmanager
    def bonded(self) -> Iterator[Transfer]:
        """A transfer with a subflow in each tunnel of the daemon's."""
        with self.at_work(), self.transfer(self.inside) as transfer:
            self.has_subflows(BY_DSL, BY_LTE)
            yield transfer

    def heard(self) -> str:
        """Where the gateway heard each tunnel last, by the tunnels' keys."""
        return self.on_provider(f"wg show {GATEWAY} endpoints")

    def heard_last(self, place: int) -> str:
        """Where it heard one of them."""
        key = keys.public_key(keys.private_key(self.enrolment.secret, place))
        return next(line.split()[1] for line in self.heard().splitlines() if line.startswith(key))

    def default(self) -> str:
        """Where the router's first default route leads."""
        return self.on_router("ip route show default").splitlines()[0]

    def addresses(self, name: str) -> list[str]:
        """An interface's addresses of global scope."""
        return self.on_router(f"ip -br address show dev {name} scope global").split()[2:]

    def gateway(self) -> dict[str, Any]:
        """What the daemon says of the gateway."""
        return self.answer()["gateway"]  # type: ignore[no-any-return]

    def silence(self, link: str) -> None:
        """Let nothing pass a link any more, neither way; its carrier stays."""
        for hook, way in (("in", "iifname"), ("out", "oifname")):
            self.on_provider(f"nft insert rule inet filter {hook} {way} isp-{link} drop")

    @contextmanager
    def call(self) -> Iterator[Child]:
        """A call by UDP to the far server, which has begun."""
        probe, where = (sys.executable, "-m", "experiments.probes.call"), (SERVER_4, MIRROR)
        with (
            ready(*in_namespace(self.provider, *probe, "answer", *where)),
            ready(*in_namespace(self.router, *probe, "ask", *where)) as call,
        ):
            yield call


def ended(call: Child) -> tuple[float, list[str]]:
    """End a call: its longest gap up to now in seconds, and the addresses that the other end knew it by."""
    until = time.monotonic()
    call.terminate()
    told = Call(json.loads(call.communicate()[0])["answers"])
    return told.gap(told.answers[0][0], until), told.addresses


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with world(tmp_path) as built, gateway(built, GATEWAY, 51840) as enrolment:
        built.pass_only_udp()
        yield House(built.nodes, built.directory, enrolment)


@contextmanager
def gateway(built: World, name: str, port: int, network: IPv4Network = NETWORK) -> Iterator[Enrolment]:
    """A gateway at the provider, with an interface of this name, that knows one router."""
    own, secret, block = keys.new_secret(), keys.new_secret(), addresses.block_of(network, 1)
    peers = tuple(
        Peer(
            keys.public_key(keys.private_key(secret, place)),
            (IPv4Network(f"{addresses.tunnel_address(block, place)}/32"),),
        )
        for place in range(3)
    )
    provider = built.nodes["provider"]
    with provider.entered():
        wireguard.create(name)
    try:
        with provider.entered():
            wireguard.configure(name, Interface(own, peers, port=port))
            wireguard.set_addresses(name, [f"{addresses.gateway(network)}/16"], 1420)
        yield Enrolment(
            gateway=Endpoint(SERVER_4, port),
            public_key=keys.public_key(own),
            secret=secret,
            addresses=block,
            inside=addresses.gateway(network),
        )
    finally:
        with provider.entered():
            wireguard.remove(name)


def test_a_session_has_a_subflow_in_each_tunnel_past_a_provider_that_drops_tcp(house: House) -> None:
    with house.bonded() as transfer:
        assert transfer.goes_on()
        inside = ["multipath", "multipath"]
        eventually(lambda: [each["mptcp_inside"] for each in house.status().values()] == inside)
        # Pings do not get through, so the tunnels' packets are as large as is safe.
        assert [(each["mtu"], each["tunnel_mtu"]) for each in house.status().values()] == [(None, 1420)] * 2


def test_a_cut_link_takes_its_tunnel_along_which_sends_by_no_other_and_brings_it_back(house: House) -> None:
    with house.bonded() as transfer:
        house.cut("dsl")
        house.has_subflows(BY_LTE)
        assert transfer.goes_on()
        assert house.heard_last(1).startswith("10.1.0.2:")
        house.restore("dsl")
        house.has_subflows(BY_DSL, BY_LTE)
        assert transfer.goes_on()


def test_a_link_gets_another_address_and_no_subflow_ends(house: House) -> None:
    with house.bonded() as transfer:
        before = house.sockets()
        house.on_router("ip address delete 10.1.0.2/24 dev dsl")
        house.lease("dsl", "10.1.0.77")
        eventually(lambda: "10.1.0.77" in house.heard())
        assert transfer.goes_on()
        house.has_subflows(BY_DSL, BY_LTE)
        assert house.sockets() == before


def test_the_gateway_hears_at_once_where_a_tunnel_has_gone_that_sends_nothing(house: House) -> None:
    with house.at_work(house.enrolled.replace('interval = "1s"', 'interval = "60s"')):
        house.on_router("ip address delete 10.2.0.2/24 dev lte")
        house.lease("lte", "10.2.0.77")
        eventually(lambda: "10.2.0.77" in house.heard(), 2.0)


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_a_call_leaves_a_link_with_its_address_and_misses_less_than_a_second(house: House, how: str) -> None:
    with house.at_work(), house.call() as call:
        # It is a conversation by then, which the router hears fall silent: the kernel tells of a carrier's end up to a
        # second late where it has just told of another (net/core/link_watch.c).
        time.sleep(2)
        if how == "cut":
            house.cut("dsl")
        else:
            house.silence("dsl")
        eventually(lambda: LTE in house.heard_last(0))
        if how == "cut":
            house.restore("dsl")
        gap, known = ended(call)
    assert known == [ELSE]
    assert gap < 1.0


def test_a_tunnel_that_another_program_set_down_or_took_the_address_from_comes_back(house: House) -> None:
    with house.at_work():
        for harm in (f"link set {PREFIX}0 down", f"address flush dev {PREFIX}0"):
            house.on_router(f"ip {harm}")
            assert PREFIX not in house.default()
            eventually(lambda: PREFIX in house.default())
            assert house.addresses(f"{PREFIX}0") == [f"{ELSE}/32"]


def test_a_router_that_cannot_save_its_record_goes_on_following_its_links(house: House) -> None:
    with house.at_work():
        (record,) = house.state.glob("*.json")
        full = record.with_suffix(".new")
        full.mkdir()  # as a disk that is full, it takes no new record
        house.cut("dsl")
        eventually(lambda: LTE in house.heard_last(0))
        eventually(lambda: BY_DSL not in house.endpoints())
        house.restore("dsl")
        house.cut("lte")
        eventually(lambda: DSL in house.heard_last(0))
        assert BY_DSL not in house.endpoints(), "a restart would not know it"
        house.restore("lte")
        full.rmdir()
        eventually(lambda: {BY_DSL, BY_LTE} <= house.endpoints().keys(), 40)


def test_without_an_answer_of_the_gateway_everything_leaves_by_the_links(house: House) -> None:
    with house.at_work():
        house.on_provider(f"ip link set {GATEWAY} down")
        eventually(lambda: "via 10.1.0.1 dev dsl" in house.default())
        house.on_provider(f"ip link set {GATEWAY} up")
        eventually(lambda: PREFIX in house.default())


def test_a_gateway_that_is_silent_gives_way_to_the_next_until_it_answers_again(house: House) -> None:
    first = f"h{os.getpid()}"
    with gateway(house, first, 51841, ANOTHER) as preferred:
        house.on_provider(f"ip link set {first} down")
        settings = settings_for(preferred, house.enrolment).replace("[tunnels]", '[tunnels]\nreturn_after = "2s"')
        with house.daemon(settings):
            eventually(lambda: PREFIX in house.default())
            with house.transfer(house.inside):
                house.has_subflows(BY_DSL, BY_LTE)
            house.on_provider(f"ip link set {first} up")
            eventually(lambda: house.gateway()["address"] == str(preferred.gateway))
            both = [str(addresses.tunnel_address(preferred.addresses, place)) for place in (1, 2)]
            eventually(lambda: set(both) <= house.endpoints().keys())  # the tunnels lead there by now
            with house.transfer(str(preferred.inside)):
                house.has_subflows(*both)
            own = f"{addresses.tunnel_address(preferred.addresses, 0)}/32"
            assert house.addresses(f"{PREFIX}0") == [own]
            assert f"{PREFIX}9" not in house.on_router("ip -br link")


def test_a_tunnel_has_no_address_that_it_had_before(house: House) -> None:
    for own in (
        ["10.84.0.17/32", "fd84::2/128"],
        ["10.84.0.33/32"],
        ["10.84.0.5/16"],
        ["10.84.0.1/16"],
        [ELSE + "/20"],
    ):
        with house.nodes["router"].entered():
            wireguard.set_addresses("lte", own, 1420)
        assert house.addresses("lte") == own


def test_a_reload_leads_nothing_past_the_tunnels_and_takes_no_secret_that_others_can_read(house: House) -> None:
    file = house.settings(house.enrolled)
    with house.at_work() as child:
        with process(*in_namespace(house.router, "ip", "-4", "monitor", "route")) as routes:
            file.write_text(house.enrolled + "[mptcp]\nsubflows = 3\n")
            child.send_signal(signal.SIGHUP)
            eventually(lambda: "subflows 3" in house.on_router("ip mptcp limits"))
            time.sleep(1.5)  # the next probes have been answered
            routes.terminate()
            assert "default" not in routes.communicate()[0]
        file.write_text(house.enrolled + "[mptcp]\nsubflows = 4\n")
        file.chmod(0o644)
        child.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert "subflows 3" in house.on_router("ip mptcp limits")
        file.chmod(0o600)
        child.send_signal(signal.SIGHUP)
        eventually(lambda: "subflows 4" in house.on_router("ip mptcp limits"))


def test_it_leaves_nothing_behind_and_a_restart_loses_nothing(house: House) -> None:
    before = house.everything()
    with house.at_work() as first, house.transfer(house.inside) as transfer:
        house.has_subflows(BY_DSL, BY_LTE)
        first.stop(signal.SIGKILL)
        monitor = in_namespace(house.router, "ip", "-4", "monitor", "route")
        with process(*monitor) as routes, house.daemon(house.enrolled) as second:
            assert transfer.goes_on()
            house.has_subflows(BY_DSL, BY_LTE)
            eventually(lambda: all(link["probe"]["rtt_ms"] for link in house.status().values()))
            routes.terminate()
            assert "default" not in routes.communicate()[0], "nothing is led past the tunnels meanwhile"
            assert second.stop() == 0
    assert house.everything() == before
    assert PREFIX not in house.on_router("ip -br link")


def test_keys_are_in_no_log_and_no_answer(house: House) -> None:
    with house.daemon(house.enrolled, stderr=subprocess.PIPE) as child:
        eventually(lambda: PREFIX in house.default())
        said = house.tributary("status", "router") + house.tributary("link", "dsl")
        child.stop()
        said += child.complaints()
    said += run(*house.command("plan", str(house.settings(house.enrolled))))
    assert "10.84.0.18" in said
    for place in range(3):
        assert keys.private_key(house.enrolment.secret, place) not in said
    assert house.enrolment.secret not in said


def test_the_console_has_the_gateway_and_the_tunnels_to_it(house: House, tmp_path: Path) -> None:
    with house.at_work(), console(tmp_path / "console", namespace=house.router) as (browser, _):
        gateway = eventually(lambda: browser.get("look")["gateway"])
        assert gateway["answers"] and gateway["address"] == str(house.enrolment.gateway)
        tunnels = {each["link"]: each for each in gateway["tunnels"]}
        assert {link: each["address"] for link, each in tunnels.items()} == {"dsl": BY_DSL, "lte": BY_LTE, None: ELSE}
        assert {each["state"] for each in tunnels.values()} == {"up"} and tunnels["dsl"]["rtt"] < 1
        house.cut("lte")
        eventually(lambda: "down" in [each["state"] for each in browser.get("look")["gateway"]["tunnels"]])
