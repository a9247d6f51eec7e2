"""Signals as bytes of a socket: nothing is interrupted half-way."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def caught(*numbers: signal.Signals) -> Iterator[socket.socket]:
    """A socket that gets each of these signals as a byte, its number; before and after they do what they did."""
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
