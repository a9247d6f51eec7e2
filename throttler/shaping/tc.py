"""tc(8), one process for the throttler's whole life: ``tc -force -batch -``.

To start a process for each batch costs 2.4 ms from a Python of this size; a line to one that runs, 50 microseconds.
It ends by itself when the throttler ends, however that ends: its standard input is closed.
"""

import re
import subprocess
import time
from contextlib import suppress
from functools import cache
from itertools import count, islice
from selectors import EVENT_READ, DefaultSelector

from tributary.settings.failure import Exit, Failure

_TIMEOUT = 60.0
"""Seconds for one part of a batch."""
_LINES = 400
"""Lines at a time: their complaints, if all fail, fit into a pipe (pipe(7)), so that neither side waits for ever."""
_FAILED = re.compile(r"^Command failed -:\d+$", re.MULTILINE)


def carry_out(lines: str) -> None:
    """Carry out ``lines``, each for itself; raises Failure, exit 71, if one of them failed."""
    rest = iter(lines.splitlines(keepends=True))
    while part := "".join(islice(rest, _LINES)):
        _process().carry_out(part)


def hand_over(lines: str) -> None:
    """Have ``lines`` carried out soon, without waiting; if one fails, the next ``carry_out`` raises Failure for it.

    ``forget_complaints`` lets go of that.
    """
    if lines.count("\n") > _LINES:
        carry_out(lines)
    elif lines:
        _process().write(lines)


def forget_complaints() -> None:
    """Wait for what was handed over; what failed of it no longer matters, since all is taken down."""
    with suppress(Failure):
        _process().carry_out("")


class _Process:
    def __init__(self) -> None:
        try:
            # In a process group of its own, so that Ctrl-C in a terminal does not end it half-way.
            self._popen = subprocess.Popen(
                ("tc", "-force", "-batch", "-"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=False,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            raise Failure(Exit.UNAVAILABLE, f"tc cannot be started: install the package iproute2 ({error})") from error
        self._numbers = count(1)
        self._selector = DefaultSelector()
        assert self._popen.stderr is not None
        self._selector.register(self._popen.stderr, EVENT_READ)

    def carry_out(self, lines: str) -> None:
        # tc says nothing when all is well. It does complain, without delay, about a line that makes no sense.
        end = f"end-of-batch-{next(self._numbers)}"
        self.write(f"{lines}{end}\n")
        before, _, _ = self._until(end).partition(f'Object "{end}"')
        if _FAILED.search(before):
            complaints = (line.strip() for line in _FAILED.sub("", before).splitlines())
            raise Failure(Exit.SYSTEM, "tc: " + "; ".join(dict.fromkeys(filter(None, complaints))))

    def write(self, lines: str) -> None:
        assert self._popen.stdin is not None
        rest = memoryview(lines.encode())
        try:
            while rest:
                rest = rest[self._popen.stdin.write(rest) or 0 :]
        except OSError as error:
            raise self._given_up(f"it is gone ({error})") from error

    def _until(self, end: str) -> str:
        assert self._popen.stderr is not None
        text, deadline = "", time.monotonic() + _TIMEOUT
        while not ((at := text.find(end)) >= 0 and _FAILED.search(text, at)):
            if not self._selector.select(deadline - time.monotonic()):
                raise self._given_up(f"no answer within {_TIMEOUT:.0f} s")
            data = self._popen.stderr.read(65536)
            if not data:
                raise self._given_up(f"it ended with {self._popen.wait()}")
            text += data.decode(errors="replace")
        return text

    def _given_up(self, why: str) -> Failure:
        self._selector.close()
        self._popen.kill()
        self._popen.wait()
        _process.cache_clear()
        return Failure(Exit.SYSTEM, f"tc: {why}")


@cache
def _process() -> _Process:
    return _Process()
