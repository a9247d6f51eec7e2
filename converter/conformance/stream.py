"""One TCP or Multipath TCP connection, seen from its end: every wait is bounded."""

import hashlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import StrEnum

from . import message
from .verdict import Unmet, require

PROTOCOL_MPTCP = 262
LEVEL_MPTCP, MPTCP_INFO, MPTCP_FALLEN_BACK = 284, 1, 1
TCP_SAVED_SYN = 28
TCP_INFO_TIMESTAMPS, TCP_INFO_SACK, TCP_INFO_SCALE, TCP_INFO_SYN_DATA = 1, 2, 4, 32
BLOCK = 65536


class Ending(StrEnum):
    """How a connection ended at this end."""

    CLOSED = "closed by a FIN"
    RESET = "reset"
    OPEN = "still open"


class Stream:
    """A connected socket. `remaining` gives the seconds that an operation may still wait."""

    def __init__(self, connection: socket.socket, remaining: Callable[[], float], note: Callable[[str], None]) -> None:
        self._socket = connection
        self._remaining = remaining
        self._note = note
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._socket.settimeout(self._remaining())
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise Unmet(f"to send {len(data)} bytes", "the connection took no more in time") from None

    def ask(self, request: bytes) -> None:
        """Sends a Convert message, and notes its bytes."""
        self._note(f"> {request[: message.LONGEST].hex()}")
        self.send(request)

    def receive(self, size: int) -> bytes:
        """Up to `size` bytes: fewer if the connection ends or nothing more comes in time."""
        return self._receive(size, self._remaining())[0]

    def _receive(self, size: int, seconds: float) -> tuple[bytes, Ending]:
        end = time.monotonic() + seconds
        came = bytearray()
        while len(came) < size:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                block = self._socket.recv(min(size - len(came), BLOCK))
            except TimeoutError:
                return bytes(came), Ending.OPEN
            except ConnectionError:
                return bytes(came), Ending.RESET
            if not block:
                return bytes(came), Ending.CLOSED
            came += block
        return bytes(came), Ending.OPEN

    def expect(self, data: bytes, what: str) -> None:
        """Takes `data` off the stream: exactly these bytes come next."""
        came, ending = self._receive(len(data), self._remaining())
        if came != data:
            raise Unmet(f"{what}: {brief(data)}", f"{brief(came)}, then {ending}")

    def rest(self, seconds: float | None = None) -> tuple[bytes, Ending]:
        """All that comes until the connection ends, or until that many `seconds` are over."""
        return self._receive(1 << 20, self._remaining() if seconds is None else seconds)

    def ends(self, *endings: Ending, expected: str) -> Ending:
        """Nothing more comes, and the connection ends in one of these ways; raises Unmet otherwise."""
        rest, ending = self.rest()
        require(not rest and ending in endings, expected, f"{brief(rest)}, then {ending}")
        return ending

    def silent(self, seconds: float) -> bool:
        """True if neither bytes nor an end come for that long."""
        return not select.select([self._socket], [], [], seconds)[0]

    def stays_whole(self, seconds: float) -> bool:
        """True if no reset comes for that long, on a connection that the other end has closed."""
        watch = select.poll()
        watch.register(self._socket, 0)  # errors are always told
        return not watch.poll(seconds * 1000)

    def reply(self) -> message.Reply:
        """The Convert message that starts the byte stream (section 6.1)."""
        head = self._part(message.WORD, b"")
        raw = self._part(message.length(head), head)
        self._note(f"< {raw.hex()}")
        return message.decode(raw)

    def _part(self, size: int, before: bytes) -> bytes:
        came, ending = self._receive(size - len(before), self._remaining())
        if len(before + came) < size:
            if before + came:
                self._note(f"< {(before + came).hex()}")
            raise Unmet("a Convert message", f"{(before + came).hex() or 'no byte'}, then {ending}")
        return before + came

    def finish(self) -> None:
        """Ends this direction; the other goes on."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Ends the connection by a reset, as a Client MUST after an Error TLV (section 6.2.8)."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def sending(self, data: bytes) -> AbstractContextManager[None]:
        """Sends `data` while the block runs."""
        return _meanwhile(lambda: self.send(data))

    def expecting(self, data: bytes, what: str) -> AbstractContextManager[None]:
        """Takes exactly `data` off the stream while the block runs."""
        return _meanwhile(lambda: self.expect(data, what))

    @property
    def peer(self) -> str:
        return str(self._socket.getpeername()[0])

    @property
    def syn_options(self) -> tuple[message.Option, ...]:
        """The TCP options of the SYN that opened this connection, if the listener kept it."""
        packet = self._socket.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 512)
        segment = packet[40:] if packet[0] >> 4 == 6 else packet[(packet[0] & 15) * 4 :]
        return message.options(segment[20 : (segment[12] >> 4) * 4])

    @property
    def negotiated(self) -> tuple[int, int]:
        """The options that both ends agreed on (bits of tcp_info), and the window scale that this end announced."""
        facts = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return facts[5], facts[6] >> 4

    @property
    def is_multipath(self) -> bool:
        try:
            facts = self._socket.getsockopt(LEVEL_MPTCP, MPTCP_INFO, 48)
        except OSError:
            return False
        return not int(struct.unpack_from("I", facts, 8)[0]) & MPTCP_FALLEN_BACK


def brief(data: bytes) -> str:
    """Bytes for a person: hexadecimal if few, else their number and checksum."""
    if len(data) <= 64:
        return data.hex() or "no byte"
    return f"{len(data)} bytes with SHA-256 {hashlib.sha256(data).hexdigest()[:16]}"


@contextmanager
def _meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Runs `action` in a thread beside the block, and raises what it raised."""
    with ThreadPoolExecutor(1) as beside:
        ended = beside.submit(action)
        yield
    ended.result()
