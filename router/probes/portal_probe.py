"""Requests for a web page, each through one link, and what a network announces. portal.py interprets both."""

import re
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from router.probes.pending import Attempt, PendingSockets, bound
from router.probes.portal import LONGEST, NOBODY, PORT, REQUEST, TIMEOUT, PortalPath

_END = b"\r\n\r\n"
_NOTES = Path("/run/systemd/netif/links")
_SAID = re.compile(r"^CAPTIVE_PORTAL=(https?://[!-~]{1,500})$", re.MULTILINE)
"""Not urn:ietf:params:capport:unrestricted, by which a network says that it has no portal (RFC 8910 section 2)."""


@dataclass(frozen=True)
class _Request(Attempt):
    answer: bytearray = field(default_factory=bytearray)


class PortalProbe(PendingSockets[str, _Request]):
    """The pending requests."""

    def start(self, link: str, path: PortalPath, now: float) -> None:
        """Sends a request. One that cannot be sent is reported as unanswered."""
        self.cancel(link)
        made = None
        with suppress(OSError):
            made = bound(*path, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            with suppress(BlockingIOError):
                made.connect((str(NOBODY), PORT))
            self._selector.register(made, selectors.EVENT_WRITE, link)
        self._pending[link] = _Request(made, now + TIMEOUT)

    def responses(self, now: float) -> Iterator[tuple[str, bytes]]:
        """The link and the head of the response of requests that have ended; it is empty if there was none."""
        for link in self._ready():
            if self._advance(self._pending[link], link):
                yield self._finish(link)
        for link in self._expired(now):
            yield self._finish(link)

    def _finish(self, link: str) -> tuple[str, bytes]:
        answer = bytes(self._pending[link].answer)
        self.cancel(link)
        return link, answer

    def _advance(self, request: _Request, link: str) -> bool:
        """Continues a request whose socket is writable or readable; returns whether it has ended."""
        made = request.socket
        assert made is not None, "it is in the selector"
        try:
            if self._selector.get_key(made).events == selectors.EVENT_WRITE:
                made.sendall(REQUEST)
                self._selector.modify(made, selectors.EVENT_READ, link)
                return False
            read = made.recv(LONGEST)
        except BlockingIOError:
            return False
        except OSError:
            return True
        request.answer.extend(read)
        return not read or _END in request.answer or len(request.answer) >= LONGEST


def announced_page(interface: str, notes: Path = _NOTES) -> str | None:
    """The login page that was announced on ``interface``, by option 114 of DHCP or its siblings (RFC 8910).

    It is an API for programs; browsers get redirected. systemd-networkd asks for it (since version 254) and saves it in
    its state. The format of that file is not documented: in another format nothing is found.
    """
    try:
        found = _SAID.search((notes / str(socket.if_nametoindex(interface))).read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None
