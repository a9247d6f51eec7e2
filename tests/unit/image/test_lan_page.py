"""docs/lan.md shows settings: a home router takes them, and its kernel has the numbers that the page tells."""

import re

from image.firstboot.bypass import MOST_TABLES, MOST_VALUES, Bypass
from image.firstboot.gateway import IDLE
from image.firstboot.reading import read
from image.firstboot.settings import MOST_PORTS, Role
from tests.unit.image.firstboot.cards import HOME
from tributary.paths import ROOT

PAGE = (ROOT / "docs/lan.md").read_text()
BLOCKS = [re.sub(r"^    ", "", each, flags=re.M) for each in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.M)]


def test_every_block_of_settings_is_accepted() -> None:
    links = HOME.partition("[lan]")[0]
    lan = next(block for block in BLOCKS if "[lan]" in block)
    for tables in [block for block in BLOCKS if "[[bypass]]" in block]:
        assert read((links + lan + tables).encode(), Role.ROUTER).bypass


def test_the_table_has_every_key() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) == set(Bypass.model_fields)


def test_limits_are_those_of_the_page() -> None:
    words = PAGE.replace("\n", " ")
    assert f"up to {MOST_TABLES} tables, with up to {MOST_VALUES} values in each list" in words
    assert f"ports and ranges of servers, {MOST_PORTS} at most" in words
    assert f'`timeouts.idle = "{IDLE}"`' in words
