"""tc(8): root qdiscs, IFB devices, and one process for a daemon's whole life: ``tc -force -batch -``.

To start a process for each batch costs 2.4 ms from a Python of this size; a line to one that runs, 50 microseconds.
It ends by itself when the daemon ends, however that ends: its standard input is closed.
"""

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any

from tributary.kernel.process import QUICK, output, require
from tributary.settings.errors import CommandError, Exit

_NO_HANDLE = "0:"
_TIMEOUT = 20.0
"""Seconds for one part of a batch: less than the service manager's watchdog waits for the loop."""
_LINES = 400
"""Lines at a time."""
_MAX_ERRORS = 2**16
"""Characters of error output about submitted lines that are kept, the last ones."""
_FAILED = re.compile(r"^Command failed -:\d+$", re.MULTILINE)


@dataclass(frozen=True)
class Qdisc:
    """A qdisc of an interface."""

    interface: str
    kind: str
    handle: str
    is_root: bool
    rate: int | None = None
    """Bytes per second, of those that hold traffic to a rate."""

    @property
    def is_default(self) -> bool:
        """Whether the kernel attached it by itself (tc(8), QDISCS)."""
        return self.handle == _NO_HANDLE


def qdiscs() -> tuple[Qdisc, ...]:
    """Those of all interfaces; raises CommandError, exit 71."""
    return tuple(map(_qdisc, shown("qdisc", "show")))


def _qdisc(found: dict[str, Any]) -> Qdisc:
    options = found.get("options", {})
    # CAKE's has a name of its own.
    rate = options.get("rate", options.get("bandwidth"))
    is_rate = isinstance(rate, int)
    return Qdisc(found["dev"], found["kind"], found["handle"], bool(found.get("root")), rate if is_rate else None)


def shown(*words: str) -> list[dict[str, Any]]:
    """What a command of tc(8) shows; raises CommandError, exit 71."""
    printed = output(["tc", "-json", *words], timeout=QUICK)
    try:
        return list(json.loads(printed or "[]"))
    except ValueError as error:
        raise CommandError(Exit.SYSTEM, f"tc {' '.join(words)}: no JSON: {printed[:80]}") from error


def add_ifb(name: str) -> list[str]:
    """The commands of ip(8) that create an IFB device, with one queue: packets stay in order."""
    return [f"link add {name} numtxqueues 1 numrxqueues 1 type ifb", f"link set {name} up"]


def execute(lines: str) -> None:
    """Execute ``lines`` one by one; raises CommandError, exit 71, if one of them failed."""
    rest = iter(lines.splitlines(keepends=True))
    while part := "".join(islice(rest, _LINES)):
        _process().execute(part)


def submit_async(lines: str) -> None:
    """Execute ``lines`` without waiting; if one fails, the next ``execute`` raises CommandError for it.

    ``discard_errors`` drops that error.
    """
    if lines.count("\n") > _LINES:
        execute(lines)
    elif lines:
        _process().write(lines)


def discard_errors() -> None:
    """Wait for submitted lines, and ignore their errors, since everything is removed."""
    with suppress(CommandError):
        _process().execute("")


def restart() -> None:
    """Start a new process for the next line: tc remembers the numbers of interfaces, of which others may have come.

    That is the map of lib/ll_map.c in iproute2. Raises CommandError, exit 71, if a submitted line failed.
    """
    _process().execute("")
    _process().end()


class _Process:
    def __init__(self) -> None:
        require("tc")
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
            raise CommandError(Exit.SYSTEM, f"tc cannot be started: {error}") from error
        assert self._popen.stdin is not None and self._popen.stderr is not None
        self._numbers = count(1)
        self._errors = ""
        self._input, self._output = self._popen.stdin.fileno(), self._popen.stderr.fileno()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)
        self._reading, self._writing = DefaultSelector(), DefaultSelector()
        self._reading.register(self._output, EVENT_READ)
        self._writing.register(self._output, EVENT_READ)
        self._writing.register(self._input, EVENT_WRITE)

    def execute(self, lines: str) -> None:
        # tc says nothing when all is well. It does complain, without delay, about a line that makes no sense.
        end = f"end-of-batch-{next(self._numbers)}"
        self.write(f"{lines}{end}\n")
        before, _, _ = self._until(end).partition(f'Object "{end}"')
        if _FAILED.search(before):
            errors = (line.strip() for line in _FAILED.sub("", before).splitlines())
            raise CommandError(Exit.SYSTEM, "tc: " + "; ".join(dict.fromkeys(filter(None, errors))))

    def write(self, lines: str) -> None:
        """Write ``lines``, and read its errors meanwhile: with a full pipe it would stop reading."""
        rest, deadline = memoryview(lines.encode()), time.monotonic() + _TIMEOUT
        while rest:
            ready = [key.fd for key, _ in self._writing.select(max(0.0, deadline - time.monotonic()))]
            if not ready:
                raise self._abandon(f"it took nothing within {_TIMEOUT:.0f} s")
            if self._output in ready:
                self._listen()
            if self._input in ready:
                try:
                    rest = rest[os.write(self._input, rest) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._abandon(f"it is gone ({error})") from error

    def _until(self, end: str) -> str:
        deadline = time.monotonic() + _TIMEOUT
        while not ((at := self._errors.find(end)) >= 0 and _FAILED.search(self._errors, at)):
            if not self._reading.select(max(0.0, deadline - time.monotonic())):
                raise self._abandon(f"no answer within {_TIMEOUT:.0f} s")
            self._listen()
        text, self._errors = self._errors, ""
        return text

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._output, 65536)
            if not data:
                raise self._abandon(f"it ended with {self._popen.wait()}")
            self._errors = (self._errors + data.decode(errors="replace"))[-_MAX_ERRORS:]

    def end(self) -> None:
        """End the process while it is idle."""
        self._abandon("ended")

    def _abandon(self, why: str) -> CommandError:
        self._reading.close()
        self._writing.close()
        self._popen.kill()
        with self._popen:
            _process.cache_clear()
        return CommandError(Exit.SYSTEM, f"tc: {why}")


@cache
def _process() -> _Process:
    return _Process()
