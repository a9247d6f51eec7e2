"""The first-start page: the real command, server, firewall and DHCP, asked by a device and by a stranger at a link.

    device 192.168.77.9 --- end0 192.168.77.1 [box] wan0 10.7.0.2 --- 10.7.0.1 [stranger]

An interface between namespaces is no device to /sys: where the box has to choose, a folder says that end0 is one.
"""

import http.client
import re
import socket
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from image.firstboot import first_start
from image.firstboot.first_start import PLACE
from image.firstboot.page import ports
from image.firstboot.reading import read
from image.firstboot.settings import Role
from tests.netns.dhcp import offered
from tests.netns.home_world import SITE, heard
from tests.netns.world import eventually, needs, socket_at
from tests.unit.image.firstboot.cards import ENROLMENT
from tests.unit.image.firstboot.systems import FIREWALL, SHIPPED, make_system, public_key, texts

AT, ORIGIN = "192.168.77.1", "http://192.168.77.1"
CODE, SECRET = "abcd-efgh", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
LAN = f'[lan]\ninterface = "end0"\naddress = "{AT}/24"\n'
LINKS = {
    "link.enx1": "dsl",
    "link.enx2": "lte",
    "link.end0": "",
    "ssh_keys": f"{public_key()}\r\n",
    "tables": ENROLMENT,
}

_NETWORK = f"""
device:eth0 192.168.77.9/24 -- box:end0
box:wan0 10.7.0.2/24 -- stranger:outer 10.7.0.1/24
stranger: ip route add {AT}/32 via 10.7.0.2
"""

KEPT = re.findall(r"CAP_(\w+)", (SHIPPED.parent / first_start.UNIT).read_text())
CONFINED = ["setpriv", "--no-new-privs", "--bounding-set", ",".join(["-all", *(f"+{name.lower()}" for name in KEPT)])]
"""With the powers of its unit."""
PAGE = [sys.executable, "-m", "image.firstboot.page"]

WITHIN = 40.0
"""Seconds in which the page comes and goes, also on a busy machine."""

pytestmark = needs("ip", "nft", "dnsmasq", "setpriv")


@dataclass
class World:
    """A box that is no router yet, in a folder, with its firewall loaded."""

    device: Node
    box: Node
    stranger: Node
    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root"

    @property
    def card(self) -> Path:
        return self.root / "boot/firmware/tributary.toml"

    def write(self, card: str) -> None:
        """The card, and what firstboot makes of it as far as the page asks: the code, and the firewall."""
        self.card.write_text(card)
        files = {Path(path).name: text for path, text in texts(card).items()}
        (self.root / PLACE).parent.mkdir(parents=True, exist_ok=True)
        (self.root / PLACE).write_text(files["code"])
        rules = {"tributary-site.nft": SITE, "tributary-site-card.nft": files["tributary-site-card.nft"]}
        for name, text in {**rules, FIREWALL.name: FIREWALL.read_text()}.items():
            (self.directory / name).write_text(text)
        self.box.run("nft", "--includepath", str(self.directory), "--file", str(self.directory / FIREWALL.name))

    def start(self) -> Process:
        return self.box.start("page", [*CONFINED, *PAGE, "--root", str(self.root)])

    def lan_side(self) -> str:
        return self.box.run("nft", "list", "set", "inet", "tributary-firewall", "lan_interfaces")

    def ask(self, path: str = "/", fields: Mapping[str, str] | None = None, **headers: str) -> tuple[int, str]:
        """As a browser on the device does it."""
        body = None if fields is None else urlencode(fields).encode()
        sent = {"Host": AT}
        if body is not None:
            sent |= {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
        with self.device.entered():
            connection = http.client.HTTPConnection(AT, timeout=20)
            connection.connect()
        connection.request("GET" if body is None else "POST", path, body, {**sent, **headers})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("first-start")
    with standing_nodes("fsp-", _NETWORK, directory) as nodes:
        root = make_system(directory / "root")
        (root / "usr/lib/tributary").mkdir(parents=True)
        (root / "usr/lib/tributary/role").write_text("router\n")
        yield World(**nodes, directory=directory)


@contextmanager
def concentrator(node: Node, interface: str) -> Iterator[None]:
    """Answers the first PADI with a PADO (RFC 2516 section 5.2)."""
    answering = socket_at(node, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8863))
    answering.bind((interface, 0x8863))
    answering.settimeout(5)

    def answer() -> None:
        asked = answering.recv(1514)
        assert asked[14:16] == b"\x11\x09"
        own = answering.getsockname()[4]
        answering.send(asked[6:12] + own + b"\x88\x63\x11\x07\x00\x00" + asked[18:])

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        answering.close()


def test_what_is_right_is_shown_then_written_as_a_card_and_the_page_ends(world: World) -> None:
    world.write(SHIPPED.read_text() + LAN)
    world.box.ip("address", "replace", f"{AT}/24", "dev", "end0")
    with world.start() as process:
        eventually(lambda: "served at end0" in process.output(), WITHIN)
        status, page = world.ask("/look", {"code": CODE.upper(), **LINKS})
        assert (status, "Their TCP connections take dsl, lte" in page) == (200, True), page
        assert SECRET not in page and CODE not in page
        assert world.card.read_text() == SHIPPED.read_text() + LAN
        token = page.partition('name="token" value="')[2].partition('"')[0]
        status, page = world.ask("/start", {"token": token})
        assert (status, "starts anew" in page, SECRET in page) == (200, True, False)
        assert '<a href="http://192.168.77.1:8480/">' in page
        assert process.popen.wait(10) == 0
    card = read(world.card.read_bytes(), Role.ROUTER)
    assert not card.first_start_page and not card.asks_by_page
    assert ({name: wan.interface for name, wan in card.wan.items()}) == {"dsl": "enx1", "lte": "enx2"}
    assert card.ssh_keys == [public_key()] and len(card.enrolment) == 1
    assert stat.S_IMODE(world.card.stat().st_mode) == 0o600
    assert "end0" not in world.lan_side()
    with world.start() as again:
        assert again.popen.wait(20) == 0
    assert "asks for no page" in again.output()
    world.box.ip("address", "flush", "dev", "end0")


def test_it_finds_the_lan_by_itself_and_leaves_it_to_whoever_else_gives_addresses_there(world: World) -> None:
    world.write(SHIPPED.read_text())
    world.box.ip("address", "flush", "dev", "end0")  # also what a first try has left
    fake = world.directory / "sys/class/net/end0"
    (fake / "device").mkdir(parents=True, exist_ok=True)
    for name, text in {"type": "1", "carrier": "1", "address": "02:00:00:00:00:01"}.items():
        (fake / name).write_text(f"{text}\n")
    page = " ".join([*CONFINED, *PAGE, "--root", str(world.root), "--wait", "1"])
    with world.box.start("page", ["sh", "-c", f"mount --bind {world.directory}/sys /sys && exec {page}"]) as process:
        eventually(lambda: "served at end0" in process.output(), WITHIN)
        assert "my devices are here" in world.ask()[1]
        eventually(lambda: offered(world.device) == f"{AT} 192.168.77.")
        world.box.ip("address", "add", "10.9.0.2/24", "dev", "end0")  # as a DHCP client does
        eventually(lambda: "not at end0 any more" in process.output(), WITHIN)
        eventually(lambda: "end0" not in world.lan_side(), WITHIN)
        assert AT not in world.box.ip("address", "show", "dev", "end0")
        world.box.ip("address", "del", "10.9.0.2/24", "dev", "end0")
        eventually(lambda: process.output().count("served at end0") == 2, WITHIN)
        assert world.ask()[0] == 200
    assert AT not in world.box.ip("address", "show", "dev", "end0")
    assert "end0" not in world.lan_side()


def test_a_provider_that_answers_by_pppoe_is_noticed(world: World) -> None:
    with concentrator(world.stranger, "outer"), world.box.entered():
        assert ports.is_answered_by_pppoe("wan0")
    with world.box.entered():
        assert not ports.is_answered_by_pppoe("end0")


@pytest.fixture(scope="module")
def said(world: World) -> Iterator[World]:
    """With the page at the LAN's side that its card names, whose address somebody else has given to it."""
    world.write(SHIPPED.read_text() + LAN)
    world.box.ip("address", "add", f"{AT}/24", "dev", "end0")
    with world.start() as process:
        eventually(lambda: "served at end0" in process.output(), WITHIN)
        yield world
    assert "end0" not in world.lan_side()
    assert SECRET not in process.output() and "abcdefgh" not in process.output()
    world.box.ip("address", "flush", "dev", "end0")


def test_a_device_gets_the_form_without_the_code_and_a_stranger_at_a_link_gets_nothing(said: World) -> None:
    status, page = said.ask()
    assert (status, "no router yet" in page, "abcd" in page) == (200, True, False)
    assert "Your devices" not in page  # /sys has no end0
    outside = ("10.7.0.2", AT)
    assert [heard(said.stranger, address, 80) for address in outside] == ["silence"] * 2
    # Also without the firewall there is no page for it.
    said.box.run("nft", "flush", "chain", "inet", "tributary-firewall", "input")
    said.box.run("nft", "add", "rule", "inet", "tributary-firewall", "input", "accept")
    try:
        assert [heard(said.stranger, address, 80) for address in outside] == ["refused"] * 2
        assert said.ask()[0] == 200
    finally:
        said.write(said.card.read_text())


def test_what_is_wrong_is_said_and_nothing_secret_comes_back(said: World) -> None:
    cases = {
        ENROLMENT.replace(SECRET, "AAE"): "enrolment[0].secret = &#39;(not shown)&#39;: accepted: 32 bytes in base64",
        ENROLMENT.replace('"', "\u201c"): "quotes must be straight ones",
        ENROLMENT + "psk = 1": "enrolment[0].psk = &#39;(not shown)&#39;",
    }
    for tables, words in cases.items():
        status, page = said.ask("/look", {"code": CODE, **LINKS, "tables": tables})
        assert (status, words in page) == (422, True), page
        assert SECRET not in page and 'value="dsl"' not in page  # the interfaces are not here
    status, page = said.ask("/look", {"code": CODE, **LINKS, "link.enx2": "dsl"})
    assert (status, "Cannot declare" in page) == (422, True), page
    assert said.card.read_text() == SHIPPED.read_text() + LAN
