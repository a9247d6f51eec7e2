"""Connections as tests have them: how they are made, read, filled and broken off."""

import errno
import fcntl
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

TCP, MPTCP = 0, socket.IPPROTO_MPTCP


class Refused(ConnectionError):
    """``args[0]`` is what the client heard: such as ``403``, ``socks 2``, ``convert 32``; ``reset``, ``silence``."""


def take(connection: socket.socket, count: int) -> bytes:
    """Exactly ``count`` bytes; raises Refused if they do not come."""
    data = bytearray()
    while len(data) < count:
        data += more(connection, count - len(data))
    return bytes(data)


def take_head(connection: socket.socket) -> bytes:
    """An HTTP head, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += more(connection, 1)
    return head


def more(connection: socket.socket, most: int) -> bytes:
    """What comes next; raises Refused if nothing does."""
    try:
        data = connection.recv(most)
    except ConnectionError as error:
        raise Refused("reset") from error
    except TimeoutError as error:
        raise Refused("silence") from error
    if not data:
        raise Refused("closed")
    return data


def read_all(connection: socket.socket, seconds: float = 10) -> tuple[bytes, str]:
    """What comes until the end, and what the end is: ``closed``, ``reset``, or ``silence`` after ``seconds``."""
    data, deadline = bytearray(), time.monotonic() + seconds
    try:
        while True:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            more = connection.recv(1 << 18)
            if not more:
                return bytes(data), "closed"
            data += more
    except TimeoutError:
        return bytes(data), "silence"
    except ConnectionError:
        return bytes(data), "reset"


def clog(writer: socket.socket, quiet: float = 0.15) -> int:
    """Write until nothing more is taken for ``quiet`` seconds; returns how many bytes were."""
    writer.setblocking(False)
    block, count, last = bytes(1 << 16), 0, time.monotonic()
    while time.monotonic() - last < quiet:
        try:
            count += writer.send(block)
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    writer.settimeout(10)
    return count


def unacknowledged(connection: socket.socket) -> int:
    """Bytes that its peer has not acknowledged (tcp(7), SIOCOUTQ)."""
    (count,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    return int(count)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def seconds_to_reset(connection: socket.socket, most: float = 3) -> float:
    """How long it takes until the peer's reset is here, whatever waits to be read before it."""
    start, poll = time.monotonic(), select.poll()
    poll.register(connection, 0)
    assert poll.poll(most * 1000), f"no reset within {most} s"
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    assert error in (errno.ECONNRESET, errno.EPIPE), f"ended by {errno.errorcode.get(error, error)}"
    return time.monotonic() - start


@contextmanager
def meanwhile(target: Callable[..., object], *arguments: object) -> Iterator[None]:
    """What is done in a thread, and is over at the end of the block."""
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()


@contextmanager
def again_and_again(ask: Callable[[], Any], clients: int = 1) -> Iterator[list[Any]]:
    """So many clients ask for the length of the block; what they hear. Raises at its end what one of them raised."""
    heard: list[Any] = []
    over = threading.Event()

    def ask_until_it_is_over() -> None:
        while not over.is_set():
            heard.append(ask())

    with ThreadPoolExecutor(clients) as threads:
        asking = [threads.submit(ask_until_it_is_over) for _ in range(clients)]
        try:
            yield heard
        finally:
            over.set()
    for each in asking:
        each.result()


def passes(writer: socket.socket, reader: socket.socket, data: bytes = b"x") -> bool:
    """Whether bytes come from one end to the other; both are the same where they are echoed."""
    writer.sendall(data)
    return take(reader, len(data)) == data
