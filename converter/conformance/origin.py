"""The server that a converter connects to."""

import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from . import message
from .stream import PROTOCOL_MPTCP, Stream
from .verdict import Skip, Unmet, require

if TYPE_CHECKING:
    from .rig import Rig

TCP_SAVE_SYN = 27
MOST_FILLERS = 8


class Origin:
    """A listening socket at a free port of an address; one that is not `listening` refuses.

    `fast_open`: it hands out Fast Open cookies. `segment`: the maximum segment size that it announces, in bytes.
    """

    def __init__(
        self,
        rig: "Rig",
        address: message.Address,
        listening: bool = True,
        mptcp: bool = False,
        fast_open: bool = False,
        segment: int = 0,
        backlog: int = 64,
    ) -> None:
        self.address = address
        self._rig = rig
        self._backlog = backlog
        self._socket = _socket(address, mptcp)
        try:
            self._prepare(segment, fast_open)
            if listening:
                self.listen()
        except BaseException:
            self._socket.close()
            raise

    def _prepare(self, segment: int, fast_open: bool) -> None:
        try:
            self._socket.bind((str(self.address), 0))
        except OSError as error:
            raise Skip(f"this machine cannot listen at {self.address}: {error.strerror}") from None
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, 1)
        if segment:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        if fast_open:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, self._backlog)

    def __enter__(self) -> "Origin":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._socket.close()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def listen(self) -> None:
        self._socket.listen(self._backlog)

    def connect(self, options: bytes = b"") -> bytes:
        return message.connect(self.address, self.port, options)

    def accept(self) -> Stream:
        self._socket.settimeout(self._rig.remaining())
        try:
            return self._rig.stream(self._socket.accept()[0])
        except TimeoutError:
            raise Unmet("a downstream connection", "none") from None

    def stays_untouched(self, seconds: float | None = None, expected: str = "no downstream connection") -> None:
        """Raises Unmet if a connection comes within that time, or within the user's `quiet`."""
        quiet = self._rig.settings.quiet if seconds is None else seconds
        require(not select.select([self._socket], [], [], quiet)[0], expected, "one")

    def hold_back(self) -> "list[Stream]":
        """Fills the queue of connections to accept, so that the kernel drops every further SYN.

        Returns the connections that fill it; `accept` each to let SYNs in again.
        """
        fillers: list[Stream] = []
        for _ in range(MOST_FILLERS):
            connection = self._attempt()
            if connection is None:
                return fillers
            fillers.append(connection)
        raise Skip("this machine's kernel answers SYNs though nobody accepts")

    def _attempt(self) -> Stream | None:
        connection = _socket(self.address, mptcp=False)
        connection.settimeout(0.1)
        try:
            connection.connect((str(self.address), self.port))
        except TimeoutError:
            connection.close()
            return None
        except OSError as error:
            connection.close()
            raise Skip(f"this machine's kernel refuses when its queue is full: {error.strerror}") from None
        time.sleep(0.01)  # the third packet of the handshake puts it into the queue
        return self._rig.stream(connection)


def _socket(address: message.Address, mptcp: bool) -> socket.socket:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        return socket.socket(family, socket.SOCK_STREAM, PROTOCOL_MPTCP if mptcp else socket.IPPROTO_TCP)
    except OSError as error:
        raise Skip(f"no {'MPTCP' if mptcp else 'TCP'} over IPv{address.version} on this machine: {error}") from None
