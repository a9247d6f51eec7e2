"""Login pages that are in the way of links, as in hotels and trains. Pure: the clock is the caller's.

A captive network answers every request for a web page, whosever it is, mostly with the address of its login page (RFC
8952 section 2.4). So when the gateway does not answer by a link, a page is asked for at an address that is nobody's:
what comes is such an answer. No third party is asked, and no name is looked up. Some networks say by DHCP where to log
in (RFC 8910): then the gateway's silence is enough.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address

from router.observed import Address
from router.rounds import Rounds

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


def login_page(answer: bytes, said: str | None = None) -> str | None:
    """Where to log in, by what was answered, else by what the network has ``said``; None if neither tells it."""
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    if not re.match(r"HTTP/1\.[01] \d{3}", head):
        return said
    told = re.search(r"^location:[ \t]*(https?://[!-~]{1,500})[ \t]*\r?$", head, re.IGNORECASE | re.MULTILINE)
    return told[1] if told else said or PAGE


class Portals(Rounds[Way, str]):
    """What is known of login pages: ``found`` are their addresses."""

    def told(self, name: str, answer: bytes, said: str | None, now: float) -> None:
        """What came by a link, nothing if nothing did, and what its network has ``said`` of a login page."""
        if not self.is_under_way(name):
            return
        page = login_page(answer, said)
        if page is None:
            self.found.pop(name, None)
        else:
            self.found[name] = page
        self.ended(name, now + AGAIN)
