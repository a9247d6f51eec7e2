"""docs/wan-links.md shows settings for links of every kind: they are accepted as they stand there."""

import re

import pytest

from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role, Wan
from tests.unit.image.firstboot.systems import facts
from tributary.paths import ROOT

PAGE = (ROOT / "docs/wan-links.md").read_text()
BLOCKS = [re.sub(r"(?m)^    ", "", found) for found in re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", PAGE)]
SETTINGS = [block.strip() for block in BLOCKS if block.strip().startswith("[")]
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


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_are_accepted_and_come_to_files(text: str) -> None:
    card = read((OTHERS + text + ("" if "[lan]" in text else LAN)).encode(), Role.ROUTER)
    assert plan(card, facts(Role.ROUTER))


def test_there_is_a_link_of_every_kind() -> None:
    shown = "\n".join(SETTINGS)
    assert all(kind in shown for kind in ("[wan.dsl.pppoe]", "[wan.mobile.modem]", "[network.", "[access_point]"))
    assert {"pppoe", "modem"} <= set(Wan.model_fields)


@pytest.mark.parametrize("rule", re.findall(r"`((?:interface|driver) = [^`]*)`", PAGE))
def test_what_the_table_says_of_a_link_is_accepted(rule: str) -> None:
    assert read((OTHERS + LAN + f"[wan.three]\n{rule}\n").encode(), Role.ROUTER).wan["three"].found_by("three")
