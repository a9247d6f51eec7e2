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
from tests.netns.router_world import SERVER_4, World, stop, world
from tests.netns.world import eventually, in_namespace, needs, process, run, said_ready
from tributary.kernel import wireguard
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Endpoint, Enrolment, text
from tributary.wireguard.interface import Interface, Peer

pytestmark = [
    pytest.mark.slow,
    needs("wg"),
    needs("wireguard-go"),
]

NETWORK, ANOTHER = IPv4Network("10.84.0.0/16"), IPv4Network("10.85.0.0/16")
BLOCK = addresses.block_of(NETWORK, 1)
ELSE, DSL, LTE = (str(addresses.tunnel_address(BLOCK, place)) for place in range(3))
MIRROR = "9000"
# Interfaces of WireGuard meet in one folder of all namespaces.
PREFIX, GATEWAY = f"t{os.getpid()}-", f"g{os.getpid()}"


@dataclass(frozen=True)
class House:
    """The world with a gateway, and the settings of a router that is enrolled there."""

    world: World
    enrolment: Enrolment

    @property
    def settings(self) -> str:
        return self.settings_for(self.enrolment)

    @staticmethod
    def settings_for(*enrolments: Enrolment) -> str:
        wans = '[wan.dsl]\ninterface = "dsl"\n[wan.lte]\ninterface = "lte"\n'
        probe = '[probe]\ninterval = "1s"\ntimeout = "1s"\nfailures = 2\n'
        return f'{wans}{probe}[tunnels]\nprefix = "{PREFIX}"\n' + "".join(map(text, enrolments))

    @contextmanager
    def router(self) -> Iterator[None]:
        """The daemon, with tunnels in which the gateway answers."""
        with self.world.daemon(self.settings):
            eventually(lambda: PREFIX in self.default())
            yield

    def by_tunnels(self, *wanted: str, seconds: float = 8.0) -> None:
        """Wait until there is one subflow from each of these addresses."""
        eventually(lambda: self.world.subflows() == sorted(wanted), seconds)

    def default(self) -> str:
        """Where the router's first default route leads."""
        return self.world.on_router("ip route show default").splitlines()[0]

    def everything_else_from(self) -> str:
        """Where the gateway heard the tunnel for everything else last."""
        key = keys.public_key(keys.private_key(self.enrolment.secret, 0))
        known = self.world.on(self.world.provider, f"wg show {GATEWAY} endpoints").splitlines()
        return next(line for line in known if line.startswith(key))

    def gateway(self) -> dict[str, Any]:
        """What the daemon says of the gateway."""
        return self.world.answer()["gateway"]  # type: ignore[no-any-return]

    def silence(self, link: str) -> None:
        """Let nothing pass a link any more, neither way; its carrier stays."""
        for hook, way in (("in", "iifname"), ("out", "oifname")):
            self.world.on(self.world.provider, f"nft insert rule ip filter {hook} {way} isp-{link} drop")

    @contextmanager
    def call(self) -> Iterator[subprocess.Popen[str]]:
        """A call by UDP to the far server, which has begun."""
        probe, where = (sys.executable, "-m", "experiments.probes.call"), (SERVER_4, MIRROR)
        with process(*in_namespace(self.world.provider, *probe, "answer", *where)) as mirror:
            said_ready(mirror)
            with process(*in_namespace(self.world.router, *probe, "ask", *where)) as call:
                yield said_ready(call)


def ended(call: subprocess.Popen[str]) -> tuple[float, list[str]]:
    """End a call: its longest gap up to now in seconds, and the addresses that the other end knew it by."""
    until = time.monotonic()
    call.terminate()
    told = Call(json.loads(call.communicate()[0])["answers"])
    return told.gap(told.answers[0][0], until), told.addresses


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with world(tmp_path) as built, gateway(built, GATEWAY, 51840) as enrolment:
        built.on(built.provider, "nft add table ip filter")
        built.on(built.provider, "nft add chain ip filter in { type filter hook input priority 0; }")
        built.on(built.provider, "nft add chain ip filter out { type filter hook output priority 0; }")
        for link in ("dsl", "lte"):
            built.on(built.provider, f"nft add rule ip filter in iifname isp-{link} meta l4proto != udp drop")
        yield House(built, enrolment)


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
    with house.router(), house.world.transfer(str(house.enrolment.inside)) as transfer:
        house.by_tunnels(DSL, LTE)
        assert transfer.goes_on()
        inside = ["multipath", "multipath"]
        eventually(lambda: [each["mptcp_inside"] for each in house.world.status().values()] == inside)
        # Pings do not get through, so the tunnels' packets are as large as is safe.
        assert [(each["mtu"], each["tunnel_mtu"]) for each in house.world.status().values()] == [(None, 1420)] * 2


def test_a_cut_link_takes_its_tunnel_along_and_brings_it_back(house: House) -> None:
    with house.router(), house.world.transfer(str(house.enrolment.inside)) as transfer:
        house.by_tunnels(DSL, LTE)
        house.world.cut("dsl")
        house.by_tunnels(LTE)
        assert transfer.goes_on()
        house.world.restore("dsl")
        house.by_tunnels(DSL, LTE)
        assert transfer.goes_on()


def test_a_link_gets_another_address_and_no_subflow_ends(house: House) -> None:
    with house.router(), house.world.transfer(str(house.enrolment.inside)) as transfer:
        house.by_tunnels(DSL, LTE)
        before = house.world.on_router("ss -HtniO state established")
        house.world.on_router("ip address delete 10.1.0.2/24 dev dsl")
        house.world.lease("dsl", "10.1.0.77")
        eventually(lambda: "10.1.0.77" in house.world.on(house.world.provider, f"wg show {GATEWAY} endpoints"))
        assert transfer.goes_on()
        house.by_tunnels(DSL, LTE)
        ports = {line.split()[2] for line in before.splitlines() if "tcp-ulp-mptcp" in line}
        after = house.world.on_router("ss -HtniO state established")
        assert ports == {line.split()[2] for line in after.splitlines() if "tcp-ulp-mptcp" in line}


def test_the_gateway_hears_at_once_where_a_tunnel_has_gone_that_sends_nothing(house: House) -> None:
    rarely = house.settings.replace('interval = "1s"', 'interval = "60s"')
    with house.world.daemon(rarely):
        eventually(lambda: PREFIX in house.default())
        house.world.on_router("ip address delete 10.2.0.2/24 dev lte")
        house.world.lease("lte", "10.2.0.77")
        eventually(lambda: "10.2.0.77" in house.world.on(house.world.provider, f"wg show {GATEWAY} endpoints"), 2.0)


def test_a_call_keeps_its_address_through_a_cut_and_misses_less_than_a_second(house: House) -> None:
    with house.router():
        with house.call() as call:
            house.world.cut("dsl")
            eventually(lambda: "10.2.0.2" in house.everything_else_from())
            house.world.restore("dsl")
            gap, known = ended(call)
        assert known == [ELSE]
        assert gap < 1.0


def test_a_call_leaves_a_link_that_goes_silent_without_a_sign_within_a_second(house: House) -> None:
    with house.router(), house.call() as call:
        time.sleep(2)  # it is a conversation by then
        house.silence("dsl")
        eventually(lambda: "10.2.0.2" in house.everything_else_from())
        gap, known = ended(call)
        assert known == [ELSE]
        assert gap < 1.0


def test_a_tunnel_sends_by_no_other_link_than_its_own(house: House) -> None:
    with house.router(), house.world.transfer(str(house.enrolment.inside)):
        house.by_tunnels(DSL, LTE)
        house.world.cut("dsl")
        house.by_tunnels(LTE)
        own = house.world.on(house.world.provider, f"wg show {GATEWAY} endpoints").splitlines()
        key = keys.public_key(keys.private_key(house.enrolment.secret, 1))
        [last] = [line.split()[1] for line in own if line.startswith(key)]
        assert last.startswith("10.1.0.2:")


def test_without_an_answer_of_the_gateway_everything_leaves_by_the_links(house: House) -> None:
    with house.router():
        house.world.on(house.world.provider, f"ip link set {GATEWAY} down")
        eventually(lambda: "via 10.1.0.1 dev dsl" in house.default(), 12.0)
        house.world.on(house.world.provider, f"ip link set {GATEWAY} up")
        eventually(lambda: PREFIX in house.default(), 12.0)


def test_a_gateway_that_is_silent_gives_way_to_the_next_until_it_answers_again(house: House) -> None:
    first = f"h{os.getpid()}"
    with gateway(house.world, first, 51841, ANOTHER) as preferred:
        house.world.on(house.world.provider, f"ip link set {first} down")
        settings = house.settings_for(preferred, house.enrolment).replace("[tunnels]", '[tunnels]\nreturn_after = "2s"')
        with house.world.daemon(settings):
            eventually(lambda: PREFIX in house.default(), 15.0)
            with house.world.transfer(str(house.enrolment.inside)):
                house.by_tunnels(DSL, LTE)
            house.world.on(house.world.provider, f"ip link set {first} up")
            eventually(lambda: house.gateway()["address"] == str(preferred.gateway), 20.0)
            with house.world.transfer(str(preferred.inside)):
                house.by_tunnels(*(str(addresses.tunnel_address(preferred.addresses, place)) for place in (1, 2)))
            assert f"{PREFIX}9" not in house.world.on_router("ip -br link")


def test_a_reload_leads_nothing_past_the_tunnels_and_takes_no_secret_that_others_can_read(house: House) -> None:
    file = house.world.settings(house.settings)
    with house.world.daemon(house.settings) as child:
        eventually(lambda: PREFIX in house.default())
        with process(*in_namespace(house.world.router, "ip", "-4", "monitor", "route")) as routes:
            file.write_text(house.settings + "[mptcp]\nsubflows = 3\n")
            child.send_signal(signal.SIGHUP)
            eventually(lambda: "subflows 3" in house.world.on_router("ip mptcp limits"))
            time.sleep(1.5)  # the next probes have been answered
            routes.terminate()
            assert "default" not in routes.communicate()[0]
        file.write_text(house.settings + "[mptcp]\nsubflows = 4\n")
        file.chmod(0o644)
        child.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert "subflows 3" in house.world.on_router("ip mptcp limits")
        file.chmod(0o600)
        child.send_signal(signal.SIGHUP)
        eventually(lambda: "subflows 4" in house.world.on_router("ip mptcp limits"))


def test_an_interface_of_somebody_elses_that_has_a_tunnels_name_is_left_alone(house: House) -> None:
    house.world.on_router(f"ip link add {PREFIX}0 type veth peer name other")
    house.world.on_router(f"ip address add 10.99.0.1/24 dev {PREFIX}0")
    with house.world.daemon(house.settings), house.world.transfer(str(house.enrolment.inside)):
        house.by_tunnels(DSL, LTE)
        assert f"{PREFIX}0" not in house.world.on_router("ip route show default")
    assert "10.99.0.1/24" in house.world.on_router(f"ip -br address show dev {PREFIX}0")
    house.world.on_router(f"ip link delete {PREFIX}0")


def test_it_leaves_nothing_behind_and_a_restart_loses_nothing(house: House) -> None:
    before = house.world.everything()
    command = house.world.command(
        "run", str(house.world.settings(house.settings)), "--state-directory", str(house.world.directory / "state")
    )
    with process(*command) as first:
        said_ready(first)
        eventually(lambda: PREFIX in house.default())
        with house.world.transfer(str(house.enrolment.inside)) as transfer:
            house.by_tunnels(DSL, LTE)
            first.kill()
            first.wait()
            with process(*command) as second:
                said_ready(second)
                assert transfer.goes_on()
                assert house.world.subflows() == sorted([DSL, LTE])
                assert stop(second) == 0
    assert house.world.everything() == before
    assert PREFIX not in house.world.on_router("ip -br link")


def test_keys_are_in_no_log_and_no_answer(house: House, tmp_path: Path) -> None:
    settings = house.world.settings(house.settings)
    command = house.world.command("run", str(settings), "--state-directory", str(tmp_path / "state"))
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        eventually(lambda: PREFIX in house.default())
        status = house.world.tributary("status", "router") + house.world.tributary("link", "dsl")
        child.terminate()
    said = status + (tmp_path / "log").read_text() + run(*house.world.command("plan", str(settings)))
    assert "10.84.0.18" in said
    for place in range(3):
        assert keys.private_key(house.enrolment.secret, place) not in said
    assert house.enrolment.secret not in said
