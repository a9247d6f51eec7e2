"""Signals as bytes of a socket: nothing is interrupted half-way."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

STOP = (signal.SIGTERM, signal.SIGINT)
LEAVE = signal.SIGUSR1
RELOAD = signal.SIGHUP


@contextmanager
def caught() -> Iterator[socket.socket]:
    """A socket that gets the number of each signal, one byte each; before and after, signals do what they did."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = {number: signal.signal(number, lambda *_: None) for number in (*STOP, LEAVE, RELOAD)}
        wakeup = signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
