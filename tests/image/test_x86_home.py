"""Two boxes booted from the x86 image, a gateway and a home router that it has enrolled, and two links between them.

One image serves both: the router's card says what it is. What the tunnels do is tried in namespaces, too
(tests/netns/test_forwarding.py, demo home); here by Debian's kernel with its WireGuard, by systemd and the units as
they are installed, by the first boot, DHCP and dnsmasq. Rates are those of an emulated processor, and are not judged.
"""

import json
import socket
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from scapy.layers.dns import DNS, DNSQR

from experiments.home.network import GATEWAY, PORTS, ROUTER, SERVER
from experiments.home.traffic import calling, downloading
from experiments.testbed.node import Node
from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.home_world import CARDS, HOME, NAME, PASSWORD, Home, standing_home
from tests.image.standing import Login
from tests.netns.world import eventually, needs
from tributary.api.places import CONSOLE_PORT
from tributary.wireguard.enrolment import PORT as WIREGUARD

pytestmark = needs("qemu-system-x86_64", "dnsmasq")

SECONDS = 5.0
"""Of a download."""
SOON = 60.0
"""Seconds in which an emulated router has noticed something and said so."""


@pytest.fixture(scope="module")
def home(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with standing_home(build("x86", Role.GATEWAY), tmp_path_factory.mktemp("home", numbered=True)) as made:
        made.wait_until_whole()
        yield made


def bonds(home: Home, port: int) -> None:
    """A device's download takes both links: each brings a considerable share of it."""
    before = home.carried()
    with downloading(home.device, SECONDS, port) as download:
        told = download.end()
    brought = {name: count - before[name] for name, count in home.carried().items()}
    assert sum(brought.values()) > told["bytes"] > 0
    assert min(brought.values()) > 0.2 * sum(brought.values()), brought


def test_both_boxes_have_started_and_nothing_failed(home: Home) -> None:
    for box in (home.gateway, home.router):
        assert box.tries("systemctl is-system-running --wait").stdout == "running\n"
        assert box.run("systemctl list-units --failed --plain --no-legend") == ""


def test_the_gateway_hears_the_router_by_both_links_and_names_it(home: Home) -> None:
    eventually(lambda: len(home.seen()["up"]) == 3, SOON)
    seen = home.seen()
    assert seen["name"] == HOME
    outside = {link["outside"].rpartition(":")[0] for link in seen["up"] if link["link"]}
    assert outside == {"198.51.100.1", "198.51.100.2"}


def test_the_tunnels_are_those_of_the_kernel(home: Home) -> None:
    for box, names in ((home.gateway, {"tributary"}), (home.router, {"tb0", "tb1", "tb2"})):
        shown = json.loads(box.run("ip -json -details link show type wireguard"))
        assert {each["ifname"] for each in shown} == names
        assert box.tries("pgrep wireguard-go").stdout == ""


@pytest.mark.parametrize("port", PORTS)
def test_a_download_from_any_port_takes_both_links(home: Home, port: int) -> None:
    bonds(home, port)


def test_a_link_whose_provider_strips_multipath_tcp_is_bonded_all_the_same(home: Home) -> None:
    with home.network.stripping(home.link("lte")):
        bonds(home, PORTS[0])


def test_names_are_looked_up_by_the_gateway(home: Home) -> None:
    assert asked(home.device) == SERVER


def asked(device: Node) -> str | None:
    """The address that the router tells a device; None if it tells none."""
    with device.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.sendto(bytes(DNS(id=7, rd=1, qd=DNSQR(qname=NAME))), (ROUTER, 53))
        answer = DNS(client.recv(512))
    return str(answer.an[0].rdata) if answer.an else None


def test_a_call_keeps_its_address_and_a_download_its_bytes_when_a_link_is_unplugged(home: Home) -> None:
    with calling(home.device) as call, downloading(home.device, 20.0) as download:
        home.box.plug(CARDS["dsl"], into=False)
        try:
            eventually(lambda: home.states().get("dsl") == "down", SOON)
            noticed = time.monotonic()
            download.end()
            # A box that was slow to say so may have said it only now; the call is to go on from there.
            with downloading(home.device, SECONDS) as another:
                another.end()
            heard = call()
        finally:
            home.box.plug(CARDS["dsl"], into=True)
    assert max(at for at, _ in heard.answers) > noticed
    assert heard.addresses == [GATEWAY]
    home.wait_until_whole()


def test_a_link_that_has_other_addresses_all_the_time_breaks_nothing(home: Home) -> None:
    with calling(home.device) as call, downloading(home.device, 60.0) as download:
        for host in (31, 32, 33):
            home.providers.lease("lte", host)
            # As a modem that dials anew does it; after a refused renewal systemd-networkd asks for nothing for a while.
            redial(home, CARDS["lte"])
            eventually(partial(has, home.router, CARDS["lte"], f"10.0.2.{host}"), SOON)
        before = home.carried()["lte"]
        assert download.process.popen.poll() is None, "the download was to last longer"
        download.end()
        heard = call()
    assert heard.addresses == [GATEWAY]
    assert home.carried()["lte"] > before
    home.wait_until_whole()


def redial(home: Home, card: str) -> None:
    """Pull the cable of the router's ``card``, and plug it in again once the router has seen that."""
    home.box.plug(card, into=False)
    try:
        eventually(lambda: home.router.run(f"cat /sys/class/net/{card}/carrier") == "0\n", SOON)
    finally:
        home.box.plug(card, into=True)


def has(box: Login, card: str, address: str) -> bool:
    """Whether the ``card`` of the box has this address."""
    return f" {address}/" in box.run(f"ip -brief address show {card}")


def browse(home: Home, path: str, body: object = None) -> Any:
    """What the router's page answers a browser in the LAN, which keeps its cookies; None where it says nothing."""
    page, jar = f"http://{ROUTER}:{CONSOLE_PORT}", str(home.network.directory / "cookies")
    words = ["curl", "-sS", "--fail-with-body", "--noproxy", "*", "--max-time", "60", "-b", jar, "-c", jar]
    if body is not None:
        words += ["-H", f"Origin: {page}", "-H", "Content-Type: application/json", "-d", json.dumps(body)]
    answer = home.device.run(*words, page + path)
    return json.loads(answer) if answer else None


def test_the_lan_opens_the_router_s_page_and_steers_by_it_after_a_login(home: Home) -> None:
    assert "<script" in home.device.run("curl", "-sS", "--noproxy", "*", f"http://{ROUTER}:{CONSOLE_PORT}/")
    eventually(lambda: {link["state"] for link in browse(home, "/api/v1/look")["links"]} == {"up"}, SOON)
    assert [link["name"] for link in browse(home, "/api/v1/look")["links"]] == list(CARDS)
    assert browse(home, "/api/v1/who")["manages"] is False
    browse(home, "/api/v1/login", {"password": PASSWORD})
    assert browse(home, "/api/v1/who")["manages"] is True
    entry = browse(home, "/api/v1/link", {"link": "lte", "key": "use", "value": "backup"})["entry"]
    assert (entry["who"], entry["after"]) == ("password", "backup")
    eventually(lambda: browse(home, "/api/v1/look")["links"][1]["use"] == "backup", SOON)
    browse(home, "/api/v1/undo", {"entry": entry["id"]})
    home.wait_until_whole()


def test_the_router_s_page_is_for_nobody_else(home: Home) -> None:
    internet, outside = home.network.internet, str(home.link("dsl").client4)
    assert knocked(internet, ["tcp/22", f"tcp/{CONSOLE_PORT}"], outside) == ["tcp/22"]
    internet.ip("route", "add", ROUTER, "via", outside)
    try:
        assert knocked(internet, ["tcp/22", f"tcp/{CONSOLE_PORT}"], ROUTER) == ["tcp/22"]
    finally:
        internet.ip("route", "delete", ROUTER)
    inside = home.router.run("ip -brief -4 address show tb0").split()[2].partition("/")[0]
    refused = home.gateway.tries(f"curl -sS --noproxy '*' --max-time 20 http://{inside}:{CONSOLE_PORT}/")
    assert refused.returncode in (7, 28), refused.stderr


def test_the_gateway_s_page_is_at_loopback_for_who_logs_in(home: Home) -> None:
    look = json.loads(home.gateway.run(f"curl -sS --noproxy '*' http://127.0.0.1:{CONSOLE_PORT}/api/v1/look"))
    assert [link["name"] for link in look["links"]] == ["tunnels"]
    page = home.gateway.run("sudo tributary console login").strip()
    assert page.startswith(f"http://127.0.0.1:{CONSOLE_PORT}/#/login?token=")


def test_the_page_s_state_is_what_both_slots_share_and_the_doctor_and_status_know_it(home: Home) -> None:
    for box in (home.gateway, home.router):
        eventually(partial(has_history, box), SOON)
        services = json.loads(box.run("sudo tributary status --json"))["services"]
        assert {each["name"]: each["running"] for each in services}["console"]
        print(services, box.run("systemctl show --property=MemoryCurrent,MemoryPeak tributary-console"))
        (found,) = json.loads(box.run("sudo tributary-doctor --json --only console"))
        assert (found["check"], found["state"]) == ("tributary-console", "ok")
        assert box.tries("grep -q scrypt /etc/tributary/console.toml").returncode == 2, "the file is not for everybody"


def has_history(box: Login) -> bool:
    """Whether the page of the box has written what links have carried."""
    return box.tries("sudo test -e /data/var/lib/private/tributary-console/history.sqlite").returncode == 0


def test_no_port_of_the_gateway_answers_a_stranger(home: Home) -> None:
    ports = sorted({*range(1, 1025), 1080, 3128, 3129, 5124, CONSOLE_PORT, 9464, 9465, 51820, WIREGUARD})
    answers = knocked(home.network.server, [f"{kind}/{port}" for kind in ("tcp", "udp") for port in ports])
    assert answers == []
    reached = knocked(home.network.internet, ["tcp/22", "tcp/23", f"tcp/{CONSOLE_PORT}"])
    assert reached == ["tcp/22"], "those who look after it get in"


def knocked(node: Node, ports: list[str], address: str = GATEWAY) -> list[str]:
    """Those of ``ports`` that answer somebody at ``node``."""
    words = ("prlimit", "--nofile=8192", sys.executable, "-m", "experiments.probes.knock", address, "5")
    answers: list[str] = json.loads(node.run(*words, *ports))
    return answers


def test_a_router_that_is_revoked_is_out_within_five_seconds(home: Home) -> None:
    file = f"/var/lib/tributary/gateway/routers/{HOME}.toml"
    home.gateway.run(f"sudo cp {file} /root/kept")
    with calling(home.device) as call:
        home.gateway.run(f"sudo tributary revoke {HOME}")
        revoked = time.monotonic()
        assert json.loads(home.gateway.run("sudo tributary routers --json"))["routers"] == []
        # It goes on by a link itself, and is known by that one's address from then on.
        eventually(lambda: not (status := home.status()) or not status["gateway"]["answers"], SOON)
        heard = call()
    assert heard.last_by(GATEWAY) - revoked < 5
    home.gateway.run("sudo rm /var/lib/tributary/gateway/revoked.json")
    home.gateway.run(f"sudo cp --preserve=mode /root/kept {file} && sudo tributary-gateway sync")
    home.wait_until_whole()
