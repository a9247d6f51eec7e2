"""The role router while nobody has said which its links are: a page for the LAN asks, of who knows the box's code."""

import hmac
import secrets
from collections.abc import Iterator
from ipaddress import IPv4Interface
from pathlib import Path

from image.firstboot.actions import PRIVATE, Action, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card

UNIT = "tributary-first-start.service"
PORT = 80

PLACE = Path("var/lib/tributary/firstboot/code")

_SIGNS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that look alike."""
_LENGTH = 8
"""Signs: 2^39 codes, years of work for who tries a thousand a second."""
_ADDRESS = IPv4Interface("192.168.77.1/24")


def address(card: Card) -> IPv4Interface:
    """The box's in the LAN, as the card says, or one that the page proposes."""
    return card.lan.address if card.lan else _ADDRESS


def first_start(facts: Facts) -> Iterator[Action]:
    """The code, and the unit that serves the page. Both go when the card has more to say."""
    yield WriteFile(f"/{PLACE}", f"{facts.code}\n", PRIVATE)
    yield EnableUnit(UNIT)


def fresh() -> str:
    """One that nobody has had."""
    return "".join(secrets.choice(_SIGNS) for _ in range(_LENGTH))


def kept(root: Path) -> str:
    """The one of the system below ``root``, or a fresh one."""
    try:
        return (root / PLACE).read_text().strip()
    except OSError:
        return fresh()


def shown(code: str) -> str:
    """In groups of four, as people copy it."""
    return "-".join(code[start : start + 4] for start in range(0, len(code), 4))


def fits(given: str, code: str) -> bool:
    """Whether ``given`` is the code, however it was grouped, in a time that says nothing of it."""
    plain = "".join(given.lower().split()).replace("-", "")
    return bool(code) and hmac.compare_digest(plain.encode(), code.encode())
