"""Pages of docs/ tell what boxes do, and show settings and messages: they are the real ones."""

import re
import subprocess

import pytest

from console.connections import _MOST, SILENCE
from console.guard import LARGEST_HEAD
from image.firstboot import bypass, first_start, forward
from image.firstboot.actions import Owner
from image.firstboot.bypass import Bypass
from image.firstboot.facts import Facts
from image.firstboot.forward import Forward
from image.firstboot.gateway import IDLE
from image.firstboot.page import ports, serving, views
from image.firstboot.page.app import LARGEST
from image.firstboot.plan import plan
from image.firstboot.reading import Wrong, read
from image.firstboot.report import next_steps
from image.firstboot.settings import MOST_PORTS, Card, Lan, Role
from image.firstboot.wan import Wan
from tests.unit.image.firstboot.cards import ENROLMENT, HOME, LINKS
from tests.unit.image.firstboot.systems import facts
from tributary.paths import ROOT
from tributary.settings.files import Settings

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f you@laptop"
UNIT = ROOT / "image/firstboot" / first_start.UNIT


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text()


def blocks(text: str, first: str) -> list[str]:
    """The indented blocks of ``text`` in which a line begins with ``first``, without their indentation."""
    found = (re.sub(r"(?m)^    ", "", each) for each in re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text))
    return [each for each in found if re.search(rf"(?m)^{re.escape(first)}", each)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("first-start", f"{len(first_start.fresh())} letters and digits of 31"),
        ("first-start", f"connected for {ports.QUIET_SECONDS:.0f} seconds"),
        ("first-start", f"{LARGEST_HEAD >> 10} kB of headers, {LARGEST >> 10} kB of a form"),
        ("first-start", f"{_MOST} connections, {SILENCE} seconds"),
        ("first-start", f"**http://{first_start.address(Card()).ip}/**"),
        ("forwarding", f"up to {forward.MOST_PORTS} entries"),
        ("forwarding", f"up to {forward.MOST_TABLES} tables"),
        ("lan", f"up to {bypass.MOST_TABLES} tables, with up to {bypass.MOST_VALUES} values in each list"),
        ("lan", f"ports and ranges of servers, {MOST_PORTS} at most"),
        ("lan", f'`timeouts.idle = "{IDLE}"`'),
    ],
)
def test_limits_and_numbers_are_those_of_the_box(name: str, said: str) -> None:
    assert said in " ".join(page(name).split())


@pytest.mark.parametrize(("name", "model"), [("forwarding", Forward), ("lan", Bypass)])
def test_a_table_has_every_key(name: str, model: type[Settings]) -> None:
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", page(name))) == set(model.model_fields)


def test_the_box_says_where_the_first_start_page_is_as_its_documentation_shows_it() -> None:
    told = next_steps(Card(), facts(Role.ROUTER, code="k7wdm3pa"))[-1]
    shown = re.search(r"(?m)^ +(This is no router yet: .*) \.\.\.$", page("first-start"))
    assert shown and told.startswith(shown[1])
    assert views.WRONG_CODE.startswith("The code is another one")


def test_the_first_start_page_s_unit_keeps_six_capabilities_and_is_confined() -> None:
    kept = re.search(r"(?m)^CapabilityBoundingSet=(.*)$", UNIT.read_text())
    assert kept and len(kept[1].split()) == 6
    row = next(line for line in page("security").splitlines() if "| `tributary-first-start` |" in line)
    assert all(name.removeprefix("CAP_") in row for name in kept[1].split())
    command = ["systemd-analyze", "--no-pager", "security", "--offline=true", str(UNIT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", result.stdout)
    assert found and float(found[1]) < 3, result.stderr


def test_devices_are_told_of_no_router_and_no_name_server_by_the_first_start_page() -> None:
    lan = Lan.model_validate({"interface": "end0", "address": str(first_start.address(Card()))})
    command = " ".join(serving.dhcp_command(lan))
    assert command.endswith("--dhcp-option=option:router --dhcp-option=option:dns-server")
    assert "--port=0" in command


def test_forwards_are_accepted() -> None:
    (tables,) = blocks(page("forwarding"), "[[forward]]")
    card = read((LINKS + tables + ENROLMENT).encode(), Role.ROUTER)
    assert [str(table.device) for table in card.forwards] == ["192.168.77.20", "192.168.77.21"]


def test_by_passes_are_accepted() -> None:
    (lan,) = blocks(page("lan"), "[lan]")
    tables = blocks(page("lan"), "[[bypass]]")
    assert tables
    for each in tables:
        assert read((HOME.partition("[lan]")[0] + lan + each).encode(), Role.ROUTER).bypass


LINKS_PAGE = page("wan-links")
OTHERS = """
gateway = "203.0.113.5"
[wan.one]
interface = "eth8"
[wan.two]
interface = "eth9"
"""
LAN = """
[lan]
interface = "eth0"
address = "192.168.77.1/24"
"""
SETTINGS = [each for each in blocks(LINKS_PAGE, "[") if each.strip().startswith("[")]


@pytest.mark.parametrize("text", SETTINGS)
def test_links_of_every_kind_are_accepted_and_come_to_files(text: str) -> None:
    card = read((OTHERS + text + ("" if "[lan]" in text else LAN)).encode(), Role.ROUTER)
    assert plan(card, facts(Role.ROUTER))


def test_there_is_a_link_of_every_kind() -> None:
    shown = "\n".join(SETTINGS)
    assert all(kind in shown for kind in ("[wan.dsl.pppoe]", "[wan.mobile.modem]", "[network.", "[access_point]"))
    assert {"pppoe", "modem"} <= set(Wan.model_fields)


@pytest.mark.parametrize("rule", re.findall(r"`((?:interface|driver) = [^`]*)`", LINKS_PAGE))
def test_what_the_table_says_of_a_link_is_accepted(rule: str) -> None:
    assert read((OTHERS + LAN + f"[wan.three]\n{rule}\n").encode(), Role.ROUTER).wan["three"].found_by("three")


INSTALL = page("install-pi")
STEPS = INSTALL.partition("## 3. Edit tributary.toml")[2].partition("## 4. Boot")[0]
ROUTER = blocks(STEPS, "gateway =")[0]


def test_a_gateways_settings_are_accepted() -> None:
    keys = blocks(STEPS, "ssh_keys")[0].replace("ssh-ed25519 AAAA... you@laptop", KEY)
    card = read((keys + blocks(STEPS, "client_networks")[0]).encode(), Role.GATEWAY)
    given = Facts(Role.GATEWAY, "/home/tributary", Owner(1, 1), frozenset(), wired=("end0",))
    for line in next_steps(card, given, ["192.168.1.23"]):
        assert f"      {line}\n" in INSTALL


def test_a_home_routers_settings_are_accepted_and_a_wrong_line_is_told_as_the_page_says() -> None:
    assert list(read(ROUTER.encode(), Role.ROUTER).wan) == ["dsl", "lte"]
    text = ROUTER.replace('"enx665544332211"', '"enx665544332211"\npriority = 0')
    with pytest.raises(Wrong) as refused:
        read(text.encode(), Role.ROUTER)
    assert any(f"`{line}`" in INSTALL for line in refused.value.lines), refused.value.lines


@pytest.mark.parametrize("words", ["Nobody can log in", "This is no router yet"])
def test_the_sentences_of_the_table_are_those_of_the_box(words: str) -> None:
    assert f"`{words}`" in INSTALL
    assert words in (ROOT / "image/firstboot/report.py").read_text()
