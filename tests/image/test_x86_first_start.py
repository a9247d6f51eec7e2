"""The home router's image, its card untouched: the first-start page asks, and a home router comes of the answers."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from experiments.home.network import DEVICE, ROUTER, Network
from image.firstboot.first_start import UNIT
from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.home_world import CARDS, PASSWORD, make_key, standing_router, surroundings
from tests.image.machine import Medium
from tests.image.standing import FIRST_START, Login
from tests.netns.dhcp import offered
from tests.netns.world import eventually, needs
from tests.unit.image.firstboot.cards import ENROLMENT
from tributary.api.places import CONSOLE_PORT

pytestmark = needs("qemu-system-x86_64", "dnsmasq")

LAN = "ens5"
_FORM = {"Origin": f"http://{ROUTER}", "Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Box:
    """A box that nobody has set up yet, and somebody with a browser and the box's owner's ``key`` at its LAN."""

    network: Network
    medium: Medium
    key: Path

    def ask(self, path: str = "/", fields: Mapping[str, str] | None = None) -> tuple[int, str]:
        """As a browser on the device does it; (0, reason) if nobody answers."""
        with self.network.device.entered():
            connection = http.client.HTTPConnection(ROUTER, timeout=60)
            try:
                connection.connect()
            except OSError as error:
                return 0, str(error)
        body = None if fields is None else urlencode(fields)
        connection.request("GET" if body is None else "POST", path, body, {} if body is None else _FORM)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    def read(self, name: str) -> str:
        """A file of the card, which whoever looks takes out of the box."""
        return self.medium.boot.read(name).decode()


@pytest.fixture(scope="module")
def box(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("first-start", numbered=True)
    with surroundings(folder) as network:
        medium = Medium.of(build("x86", Role.ROUTER), folder, None)
        with standing_router(network, medium):
            made = Box(network, medium, make_key(folder))
            eventually(lambda: made.ask()[0] == 200, FIRST_START)
            yield made


@pytest.fixture(scope="module")
def router(box: Box) -> Login:
    """What has become of it."""
    (code,) = re.findall(r"Code: (\w{4}-\w{4})\.", box.read("tributary-applied.txt"))
    given = {
        "code": code,
        **{f"link.{card}": name for name, card in CARDS.items()},
        "lan": LAN,
        "address": f"{ROUTER}/24",
        "ssh_keys": box.key.with_suffix(".pub").read_text(),
        "password": PASSWORD,
        "tables": ENROLMENT,
    }
    status, page = box.ask("/look", given)
    assert (status, "Their TCP connections take dsl, lte" in page) == (200, True), page
    token = page.partition('name="token" value="')[2].partition('"')[0]
    assert box.ask("/start", {"token": token})[0] == 200
    login = Login(box.network.device, ROUTER, box.key)
    login.wait()
    return login


def test_a_computer_at_the_port_that_leads_nowhere_gets_an_address_and_the_form(box: Box) -> None:
    answer = eventually(lambda: offered(box.network.device), 60)
    assert answer == f"{ROUTER} {DEVICE.rpartition('.')[0]}."
    status, page = box.ask()
    assert (status, "no router yet" in page) == (200, True)
    assert all(f'name="link.{card}"' in page for card in (*CARDS.values(), LAN))
    assert f"open http://{ROUTER}/ there" in box.read("tributary-applied.txt")


def test_with_the_answers_it_becomes_a_home_router(box: Box, router: Login) -> None:
    assert router.tries("systemctl is-system-running --wait").stdout == "running\n"
    assert router.run("systemctl list-units --failed --plain --no-legend") == ""
    told = json.loads(router.run("sudo tributary status router"))
    assert {link["name"]: link["interface"] for link in told["wan"]} == CARDS
    eventually(lambda: f"{ROUTER} " in offered(box.network.device), 60)


def test_its_own_page_takes_the_password_that_was_given(box: Box, router: Login) -> None:
    page = f"http://{ROUTER}:{CONSOLE_PORT}"
    words = ["curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Origin: {page}"]
    words += ["-H", "Content-Type: application/json", "-d", json.dumps({"password": PASSWORD})]
    assert eventually(lambda: box.network.device.run(*words, f"{page}/api/v1/login"), 60) == "204"
    card = router.run("sudo cat /boot/firmware/tributary.toml")
    assert "console_password_hash = " in card and PASSWORD not in card


def test_the_page_is_gone_with_its_code_and_what_was_given_is_roots_alone(box: Box, router: Login) -> None:
    assert router.tries(f"systemctl is-enabled {UNIT}").stdout == "disabled\n"
    assert box.ask()[0] == 0
    assert "Code:" not in box.read("tributary-applied.txt")
    assert router.tries("cat /boot/firmware/tributary.toml").returncode != 0
    assert "first_start_page = false" in router.run("sudo cat /boot/firmware/tributary.toml")
