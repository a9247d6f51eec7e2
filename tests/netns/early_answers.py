"""A web server that answers an upload before it has read it, and says which requests it was asked."""

import socket
import threading
from dataclasses import dataclass, field

from tests.netns.connections import take, take_head
from tests.netns.converter_services import fields_of, path_of, respond

EARLY, HIDDEN = b"/early", b"/hidden"
"""How the paths end of what is answered early, and of what nobody has asked for."""

SMALL = 4096
"""Bytes of its receive buffer."""

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
