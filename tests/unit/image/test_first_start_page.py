"""docs/first-start.md tells what the box does: its words, its limits, its unit."""

import re
import subprocess

from image.firstboot import code, first_start
from image.firstboot.next_steps import next_steps
from image.firstboot.page import lan_side, serving, views
from image.firstboot.page.app import LARGEST
from image.firstboot.page.serving import CONNECTIONS, LARGEST_HEAD, SILENCE
from image.firstboot.settings import Card, Lan, Role
from tests.unit.image.firstboot.systems import facts
from tributary.paths import ROOT

PAGE = (ROOT / "docs/first-start.md").read_text()
WORDS = " ".join(PAGE.split())
UNIT = (ROOT / "image/firstboot" / first_start.UNIT).read_text()


def test_the_box_says_where_the_page_is_as_the_page_shows_it() -> None:
    told = next_steps(Card(), facts(Role.ROUTER, code="k7wdm3pa"))[-1]
    shown = re.search(r"^ +(This is no router yet: .*) \.\.\.$", PAGE, re.MULTILINE)
    assert shown and told.startswith(shown[1])
    assert views.WRONG_CODE.startswith("The code is another one")
    assert f"**http://{first_start.address(Card()).ip}/**" in PAGE


def test_limits_are_those_of_the_page() -> None:
    assert f"{len(code.fresh())} letters and digits of 31" in WORDS
    assert f"connected for {lan_side.QUIET_SECONDS:.0f} seconds" in WORDS
    sizes = f"{LARGEST_HEAD >> 10} kB of headers, {LARGEST >> 10} kB of a form"
    assert f"{sizes}, {CONNECTIONS} connections, {SILENCE} seconds" in WORDS


def test_its_unit_keeps_six_capabilities_and_is_confined() -> None:
    kept = re.search(r"^CapabilityBoundingSet=(.*)$", UNIT, re.MULTILINE)
    assert kept and len(kept[1].split()) == 6
    row = next(
        line for line in (ROOT / "docs/security.md").read_text().splitlines() if "| `tributary-first-start` |" in line
    )
    assert all(name.removeprefix("CAP_") in row for name in kept[1].split())
    unit = str(ROOT / "image/firstboot" / first_start.UNIT)
    command = ["systemd-analyze", "--no-pager", "security", "--offline=true", unit]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", result.stdout)
    assert found and float(found[1]) < 3, result.stderr


def test_devices_are_told_of_no_router_and_no_name_server() -> None:
    command = " ".join(serving.dhcp_command(lan()))
    assert command.endswith("--dhcp-option=option:router --dhcp-option=option:dns-server")
    assert "--port=0" in command


def lan() -> Lan:
    return Lan.model_validate({"interface": "end0", "address": str(first_start.address(Card()))})
