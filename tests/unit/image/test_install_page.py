"""docs/install-pi.md shows settings and messages: they are the real ones."""

import re

import pytest

from image.firstboot.actions import Owner
from image.firstboot.facts import Facts
from image.firstboot.next_steps import next_steps
from image.firstboot.reading import Wrong, read
from image.firstboot.settings import Role
from tributary.paths import ROOT

PAGE = (ROOT / "docs/install-pi.md").read_text()
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f you@laptop"
STEPS = PAGE.partition("## 3. Edit tributary.toml")[2].partition("## 4. Boot")[0]


def block(beginning: str) -> str:
    """The indented block in which a line begins so, without its indentation."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", STEPS, re.MULTILINE)
    found = next(each for each in blocks if re.search(rf"^    {re.escape(beginning)}", each, re.MULTILINE))
    return re.sub(r"^    ", "", found, flags=re.MULTILINE)


def test_a_gateways_settings_are_accepted() -> None:
    keys = block("ssh_keys").replace("ssh-ed25519 AAAA... you@laptop", KEY)
    card = read((keys + block("client_networks")).encode(), Role.GATEWAY)
    facts = Facts(Role.GATEWAY, "/home/tributary", Owner(1, 1), frozenset(), wired=("end0",))
    for line in next_steps(card, facts, ["192.168.1.23"]):
        assert f"      {line}\n" in PAGE


def test_a_home_routers_settings_are_accepted() -> None:
    card = read(block("gateway =").encode(), Role.ROUTER)
    assert list(card.wan) == ["dsl", "lte"]


def test_the_wrong_line_is_told_as_the_page_says() -> None:
    text = block("gateway =").replace('interface = "enx*"', 'interface = "enx*"\npriority = 0')
    with pytest.raises(Wrong) as refused:
        read(text.encode(), Role.ROUTER)
    assert any(f"`{line}`" in PAGE for line in refused.value.lines), refused.value.lines


@pytest.mark.parametrize("words", ["Nobody can log in", "This is no router yet"])
def test_the_sentences_of_the_table_are_those_of_the_box(words: str) -> None:
    source = (ROOT / "image/firstboot/next_steps.py").read_text()
    assert f"`{words}`" in PAGE
    assert words in source
