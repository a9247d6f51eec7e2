"""Questions for a web page, each through one link, and what came. What that means is captive.py's business."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from router.captive import LONGEST, NOBODY, PORT, REQUEST, TIMEOUT, Way
from router.kernel.rtnetlink import family
from router.under_way import UnderWay

_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Reply:
    """What came by a link, as far as it was read; nothing if nothing did."""

    link: str
    answer: bytes


@dataclass
class _Question:
    socket: socket.socket | None
    deadline: float
    answer: bytearray = field(default_factory=bytearray)


class Asker(UnderWay[str, _Question]):
    """The questions under way."""

    def start(self, link: str, way: Way, now: float) -> None:
        """Ask; one that cannot be asked is told as one that was not answered."""
        self.forget(link)
        made = None
        with suppress(OSError):
            made = _connecting(way)
            self._selector.register(made, selectors.EVENT_WRITE, link)
        self._attempts[link] = _Question(made, now + TIMEOUT)

    def replies(self, now: float) -> Iterator[Reply]:
        """To the questions that were answered or refused, or whose time is over."""
        for link in self._heard():
            if self._has_ended(self._attempts[link], link):
                yield self._reply(link)
        for link in self._overdue(now):
            yield self._reply(link)

    def _reply(self, link: str) -> Reply:
        reply = Reply(link, bytes(self._attempts[link].answer))
        self.forget(link)
        return reply

    def _has_ended(self, question: _Question, link: str) -> bool:
        """Go on with a question that is writable or readable."""
        made = question.socket
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
        question.answer += read
        return not read or _END in question.answer or len(question.answer) >= LONGEST


def _connecting(way: Way) -> socket.socket:
    made = socket.socket(family(way.source), socket.SOCK_STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, way.interface.encode())
        made.bind((str(way.source), 0))
        with suppress(BlockingIOError):
            made.connect((str(NOBODY), PORT))
    except OSError:
        made.close()
        raise
    return made
