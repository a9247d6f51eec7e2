"""tc(8), one process for the throttler's whole life: ``tc -force -batch -``.

To start a process for each batch costs 2.4 ms from a Python of this size; a line to one that runs, 50 microseconds.
It ends by itself when the throttler ends, however that ends: its standard input is closed.
"""

import os
import re
import subprocess
import time
from contextlib import suppress
from functools import cache
from itertools import count, islice
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from tributary.settings.errors import CommandError, Exit

_TIMEOUT = 20.0
"""Seconds for one part of a batch: less than the service manager's watchdog waits for the loop."""
_LINES = 400
"""Lines at a time."""
_MOST_COMPLAINTS = 2**16
"""Characters of complaints about what was handed over that are kept, the last ones."""
_FAILED = re.compile(r"^Command failed -:\d+$", re.MULTILINE)


def carry_out(lines: str) -> None:
    """Carry out ``lines``, each for itself; raises CommandError, exit 71, if one of them failed."""
    rest = iter(lines.splitlines(keepends=True))
    while part := "".join(islice(rest, _LINES)):
        _process().carry_out(part)


def hand_over(lines: str) -> None:
    """Have ``lines`` carried out soon, without waiting; if one fails, the next ``carry_out`` raises CommandError for
    it.

    ``forget_complaints`` lets go of that.
    """
    if lines.count("\n") > _LINES:
        carry_out(lines)
    elif lines:
        _process().write(lines)


def forget_complaints() -> None:
    """Wait for what was handed over; what failed of it no longer matters, since all is taken down."""
    with suppress(CommandError):
        _process().carry_out("")


def start_anew() -> None:
    """Have a new process for the next line: tc remembers the numbers of interfaces, of which others may have come.

    That is the map of lib/ll_map.c in iproute2. Raises CommandError, exit 71, if something that was handed over failed.
    """
    _process().carry_out("")
    _process().end()


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
            raise CommandError(
                Exit.UNAVAILABLE, f"tc cannot be started: install the package iproute2 ({error})"
            ) from error
        assert self._popen.stdin is not None and self._popen.stderr is not None
        self._numbers = count(1)
        self._complaints = ""
        self._input, self._output = self._popen.stdin.fileno(), self._popen.stderr.fileno()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)
        self._reading, self._writing = DefaultSelector(), DefaultSelector()
        self._reading.register(self._output, EVENT_READ)
        self._writing.register(self._output, EVENT_READ)
        self._writing.register(self._input, EVENT_WRITE)

    def carry_out(self, lines: str) -> None:
        # tc says nothing when all is well. It does complain, without delay, about a line that makes no sense.
        end = f"end-of-batch-{next(self._numbers)}"
        self.write(f"{lines}{end}\n")
        before, _, _ = self._until(end).partition(f'Object "{end}"')
        if _FAILED.search(before):
            complaints = (line.strip() for line in _FAILED.sub("", before).splitlines())
            raise CommandError(Exit.SYSTEM, "tc: " + "; ".join(dict.fromkeys(filter(None, complaints))))

    def write(self, lines: str) -> None:
        """Give it ``lines``, and take what it complains about meanwhile: with its pipe full it would read no more."""
        rest, deadline = memoryview(lines.encode()), time.monotonic() + _TIMEOUT
        while rest:
            ready = [key.fd for key, _ in self._writing.select(max(0.0, deadline - time.monotonic()))]
            if not ready:
                raise self._given_up(f"it took nothing within {_TIMEOUT:.0f} s")
            if self._output in ready:
                self._listen()
            if self._input in ready:
                try:
                    rest = rest[os.write(self._input, rest) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._given_up(f"it is gone ({error})") from error

    def _until(self, end: str) -> str:
        deadline = time.monotonic() + _TIMEOUT
        while not ((at := self._complaints.find(end)) >= 0 and _FAILED.search(self._complaints, at)):
            if not self._reading.select(max(0.0, deadline - time.monotonic())):
                raise self._given_up(f"no answer within {_TIMEOUT:.0f} s")
            self._listen()
        text, self._complaints = self._complaints, ""
        return text

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._output, 65536)
            if not data:
                raise self._given_up(f"it ended with {self._popen.wait()}")
            self._complaints = (self._complaints + data.decode(errors="replace"))[-_MOST_COMPLAINTS:]

    def end(self) -> None:
        """End it, with nothing under way."""
        self._given_up("ended")

    def _given_up(self, why: str) -> CommandError:
        self._reading.close()
        self._writing.close()
        self._popen.kill()
        with self._popen:
            _process.cache_clear()
        return CommandError(Exit.SYSTEM, f"tc: {why}")


@cache
def _process() -> _Process:
    return _Process()
