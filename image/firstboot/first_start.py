"""The role router while nobody has said which its links are: a page for the LAN asks. Pure."""

from collections.abc import Iterator
from ipaddress import IPv4Interface

from image.firstboot import code
from image.firstboot.actions import PRIVATE, Action, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card

UNIT = "tributary-first-start.service"
PORT = 80

_ADDRESS = IPv4Interface("192.168.77.1/24")


def address(card: Card) -> IPv4Interface:
    """The box's in the LAN, as the card says, or one that the page proposes."""
    return card.lan.address if card.lan else _ADDRESS


def first_start(facts: Facts) -> Iterator[Action]:
    """The code, and the unit that serves the page. Both go when the card has more to say."""
    yield WriteFile(f"/{code.PLACE}", f"{facts.code}\n", PRIVATE)
    yield EnableUnit(UNIT)
