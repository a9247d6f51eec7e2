"""Login pages of captive portals, as in hotels and trains. Pure: the caller passes the clock.

A captive network answers every web request, mostly with a redirect to its login page (RFC 8952 section 2.4). So when
the gateway does not answer by a link, a page is requested from an unassigned address: any answer is the portal's.
No third party is asked, and no name is looked up. Some networks announce the login page by DHCP (RFC 8910): then the
gateway's silence is enough.
"""

import re
from ipaddress import IPv4Address

from router.probes.schedule import PeriodicChecks
from tributary.kernel.state import Address

NOBODY, PORT = IPv4Address("192.0.2.1"), 80
"""Of TEST-NET-1, which is never in use (RFC 5737)."""
PAGE = f"http://{NOBODY}/"
REQUEST = f"GET / HTTP/1.1\r\nHost: {NOBODY}\r\nConnection: close\r\n\r\n".encode()
AGAIN = 60.0
"""Seconds between two requests, while the gateway does not answer."""
TIMEOUT = 5.0
"""Seconds for an answer."""
LONGEST = 8192
"""Bytes of a response that are read at most."""


PortalPath = tuple[str, Address]
"""Interface and source address of a request."""


def login_page(answer: bytes, announced: str | None = None) -> str | None:
    """The login page by the response, else by what the network has ``announced``; None if neither has one."""
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    if not re.match(r"HTTP/1\.[01] \d{3}", head):
        return announced
    location = re.search(r"^location:[ \t]*(https?://[!-~]{1,500})[ \t]*\r?$", head, re.IGNORECASE | re.MULTILINE)
    return location[1] if location else announced or PAGE


class Portals(PeriodicChecks[PortalPath, str]):
    """The login pages of links, in ``results``."""

    def on_response(self, name: str, answer: bytes, announced: str | None, now: float) -> None:
        """Takes the response on a link (empty if there was none), and the announced login page."""
        if name not in self._running:
            return
        page = login_page(answer, announced)
        if page is None:
            self.results.pop(name, None)
        else:
            self.results[name] = page
        self.done(name, now + AGAIN)
