"""A web server that answers an upload before it has read it, and says which requests it was asked."""

import socket
import threading
from collections.abc import Callable, Sized
from dataclasses import dataclass, field

from tests.netns.connections import take, take_head
from tests.netns.converter_services import fields_of, heard, path_of, respond
from tests.netns.world import eventually, settled

EARLY, HIDDEN = b"/early", b"/hidden"
"""How the paths end of what is answered early, and of what nobody has asked for."""

SMALL = 4096
"""Bytes of its receive buffer."""

SIZES = range(40_000, 200_000, 10_000)
"""Of uploads: how much the sockets take is not known beforehand. Some go into them whole, some wait in the proxy in
part, some wait at the client too."""

TRAP = b"f" * 300_000 + b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
"""Content of a request: whoever takes its first bytes for another request's content finds a request in it."""


def length_of(head: bytes) -> int:
    """The bytes that follow a head."""
    return int(fields_of(head)[b"content-length"])


@dataclass
class EarlyAnswers:
    """The server. An upload to EARLY gets a 401 that keeps the connection, and is read when its client has that, as
    nginx does; others are read at once.
    """

    paths: list[bytes] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    may_read: threading.Event = field(default_factory=threading.Event)

    def forget(self) -> None:
        """Begin anew."""
        self.paths.clear()
        self.may_answer.clear()
        self.may_read.clear()

    def serve(self, connection: socket.socket) -> None:
        """One connection, until it ends or a request comes that nobody has sent."""
        while True:
            head = take_head(connection)
            self.paths.append(path_of(head))
            if path_of(head).endswith(HIDDEN):
                return
            if path_of(head).endswith(EARLY):
                self.may_answer.wait(20)
                respond(connection, b"no", status=b"401 Unauthorized")
                self.may_read.wait(20)
                take(connection, length_of(head))
            else:
                take(connection, length_of(head))
                respond(connection, b"done")

    def takes_nothing_of_the_next(
        self,
        client: socket.socket,
        post: Callable[[bytes, bytes], bytes],
        size: int,
        passed_on: Callable[[], tuple[int, ...]],
        came: Sized,
    ) -> bool:
        """An upload of this size is answered early, and nothing of the client's next request, which ends in one that
        nobody has sent, is taken for the rest of it. Returns whether a part of it waited in the proxy alone.

        ``post`` makes a request of a path's end and a content; ``passed_on`` is what the proxy keeps, and other numbers
        that change as long as it passes something on; ``came`` are those who came to the server.
        """
        client.sendall(post(EARLY, bytes(size)))
        eventually(lambda: self.paths)
        waits = settled(passed_on)[0] > 0
        self.may_answer.set()
        head, content = heard(client)
        self.may_read.set()
        assert (head.split()[1], content) == (b"401", b"no")
        if fields_of(head).get(b"connection") == b"close":
            return False
        client.sendall(post(b"/next", TRAP))
        assert heard(client)[1] == b"done"
        assert len(came) == (2 if waits else 1)
        assert [path[path.rfind(b"/") :] for path in self.paths] == [EARLY, b"/next"]
        return bool(waits)
