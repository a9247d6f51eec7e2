"""What comes back from the page: a form's fields, and the card's file with them. Pure."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl

import tomli_w

from console import password
from image.firstboot.settings import Card

LINK = "link."
"""Begins the field that says which link an interface is: ``link.end0``."""

MOST_FIELDS = 64

_HEAD = "## From the first-start page.\n"
_NAMES = ("code", "token", "lan", "address", "ssh_keys", "password", "tables")


@dataclass(frozen=True)
class Form:
    """``links`` are names by interface. ``tables`` is text for the end of the card's file, and holds secrets.
    ``password`` is the one for the console's page, of which the file gets the hash.

    ``code`` is the box's; ``token`` stands for it from the second time on.
    """

    code: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    lan: str = ""
    address: str = ""
    ssh_keys: str = ""
    password: str = field(default="", repr=False)
    tables: str = field(default="", repr=False)
    links: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read application/x-www-form-urlencoded (URL standard, section 5); raises ValueError."""
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
        # Browsers end lines as in CRLF. A password is what was typed, to the last space.
        given = {key: value if key == "password" else value.replace("\r\n", "\n").strip() for key, value in pairs}
        links = {key.removeprefix(LINK): value for key, value in given.items() if key.startswith(LINK)}
        if len(given) < len(pairs) or given.keys() - {*_NAMES, *(LINK + name for name in links)}:
            raise ValueError("a field that the page does not have, or one twice")
        return cls(links=links, **{key: given[key] for key in _NAMES if key in given})

    def added_to(self, text: str, card: Card) -> str:
        """The card's file with what was given. ``card`` is what it says by now: that is not said again.

        Keys go before the first table, after the comments that the file begins with; tables go to its end. What the
        file says of these keys goes: it cannot say them twice.
        """
        keys = self._keys(card)
        lines = list(_without(keys.keys(), text.split("\n")))
        begins = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
        head, rest = "\n".join(lines[:begins]), "\n".join(lines[begins:])
        parts = (head, f"\n{_HEAD}{tomli_w.dumps(keys)}", rest, f"\n{_HEAD}{''.join(self._tables(card))}", self.tables)
        return "\n".join(part.removesuffix("\n") for part in parts if part) + "\n"

    def _keys(self, card: Card) -> dict[str, object]:
        """Once is enough: the page goes for good."""
        keys = [line for line in self.ssh_keys.split("\n") if line.strip()]
        return {
            "first_start_page": False,
            **({"ssh_keys": keys} if keys and not card.ssh_keys else {}),
            **({"console_password_hash": password.hashed(self.password)} if self.has_password(card) else {}),
        }

    def has_password(self, card: Card) -> bool:
        """Whether a password was given for a page that has none."""
        return bool(self.password) and card.console != "off" and card.console_password_hash is None

    def _tables(self, card: Card) -> Iterator[str]:
        """Each by itself: two links of one name are an error, and not one link."""
        for interface, name in self.links.items():
            if name:
                yield tomli_w.dumps({"wan": {name: {"interface": interface}}}) + "\n"
        if self.lan and card.lan is None:
            yield tomli_w.dumps({"lan": {"interface": self.lan, "address": self.address}}) + "\n"


def _without(keys: Set[str], lines: Sequence[str]) -> Iterator[str]:
    """Lines of a card's file, but for those that say one of ``keys``, before the first table."""
    begins = 0
    while begins < len(lines) and not lines[begins].lstrip().startswith("["):
        ends = begins + _length(lines[begins:])
        if keys.isdisjoint(_said("\n".join(lines[begins:ends])) or ()):
            yield from lines[begins:ends]
        begins = ends
    yield from lines[begins:]


def _length(lines: Sequence[str]) -> int:
    """How many lines the first statement has: a list may take several. One, where none is ever complete."""
    counts = range(1, len(lines) + 1)
    return next((count for count in counts if _said("\n".join(lines[:count])) is not None), 1)


def _said(statement: str) -> Mapping[str, object] | None:
    """What it says; None if it is not complete."""
    try:
        return tomllib.loads(statement + "\n")
    except tomllib.TOMLDecodeError:
        return None
