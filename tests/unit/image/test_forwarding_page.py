"""docs/forwarding.md shows settings: a home router takes them, and its limits are those of the page."""

import re

from image.firstboot.forward import MOST_PORTS, MOST_TABLES, Forward
from image.firstboot.reading import read
from image.firstboot.settings import Role
from tests.unit.image.firstboot.cards import ENROLMENT, LINKS
from tributary.paths import ROOT

PAGE = (ROOT / "docs/forwarding.md").read_text()


def test_the_settings_are_accepted() -> None:
    tables = re.search(r"(?:^    .*\n|^\n(?=    \[\[))+(?=\n\| key)", PAGE, re.M)
    assert tables is not None
    card = read((LINKS + re.sub(r"^    ", "", tables[0], flags=re.M) + ENROLMENT).encode(), Role.ROUTER)
    assert [str(table.device) for table in card.forwards] == ["192.168.77.20", "192.168.77.21"]


def test_the_table_has_every_key() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) == set(Forward.model_fields)


def test_limits_are_those_of_the_page() -> None:
    assert f"up to {MOST_PORTS} entries" in PAGE
    assert f"up to {MOST_TABLES} tables" in PAGE
