"""Signals as bytes of a socket, so that they interrupt nothing."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def caught(*numbers: signal.Signals) -> Iterator[socket.socket]:
    """A socket that receives each of these signals as a byte, its number; restores their handlers afterwards."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        wakeup = signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
