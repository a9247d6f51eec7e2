"""Login pages that are in the way of links, as in hotels and trains. Pure: the clock is the caller's.

A captive network answers every request for a web page, whosever it is, mostly with the address of its login page (RFC
8952 section 2.4). So when the gateway does not answer by a link, a page is asked for at an address that is nobody's:
what comes is such an answer. No third party is asked, and no name is looked up.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from cpe.observed import Address
from cpe.rounds import Rounds

NOBODY, PORT = IPv4Address("192.0.2.1"), 80
"""Of TEST-NET-1, which is never in use (RFC 5737)."""
PAGE = f"http://{NOBODY}/"
REQUEST = f"GET / HTTP/1.1\r\nHost: {NOBODY}\r\nConnection: close\r\n\r\n".encode()
AGAIN = 60.0
"""Seconds between two questions, while the gateway does not answer."""
TIMEOUT = 5.0
"""Seconds for an answer."""
LONGEST = 8192
"""Bytes of an answer that are read at most."""


@dataclass(frozen=True)
class Way:
    """By which interface, from which address."""

    interface: str
    source: Address


def login_page(answer: bytes) -> str | None:
    """Where to log in, by what was answered: None if that is not HTTP."""
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    if not re.match(r"HTTP/1\.[01] \d{3}", head):
        return None
    told = re.search(r"^location:[ \t]*(https?://[!-~]{1,500})[ \t]*\r?$", head, re.IGNORECASE | re.MULTILINE)
    return told[1] if told else PAGE


class Portals:
    """What is known of login pages: ``found`` are their addresses by the links' names."""

    def __init__(self) -> None:
        self._rounds: Rounds[Way] = Rounds()
        self.found: dict[str, str] = {}

    def keep(self, ways: Mapping[str, Way]) -> None:
        """From now on exactly these are asked; what is known of one that works again is forgotten."""
        for name in self._rounds.keep(ways):
            self.found.pop(name, None)

    def way(self, name: str) -> Way | None:
        """By which a link leads out."""
        return self._rounds.ways.get(name)

    @property
    def next_due(self) -> float | None:
        """When the next question is due."""
        return self._rounds.next_due

    def begin(self, now: float) -> list[str]:
        """The links whose questions are due."""
        return self._rounds.begin(now)

    def told(self, name: str, answer: bytes, now: float) -> None:
        """What came by a link; nothing if nothing did."""
        if not self._rounds.is_under_way(name):
            return
        page = login_page(answer)
        if page is None:
            self.found.pop(name, None)
        else:
            self.found[name] = page
        self._rounds.ended(name, now + AGAIN)
