"""The daemon: reads the sockets, carries out the plans, and leaves nothing behind."""

import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from settings.failure import Failure
from throttler.policy.model import Policy
from throttler.service.control import Server
from throttler.service.engine import Engine, log_lines
from throttler.shaping import apply
from throttler.shaping.plan import Plan
from throttler.shaping.render import Link
from throttler.sources.order import InOrder
from throttler.sources.sniffer import Sniffer
from throttler.wire.segments import Segment

_BATCH = 512
"""Packets of one interface in one round."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BETWEEN_FRESH_STARTS = 10.0
"""Seconds: two failures of nft or tc in a shorter time, and the daemon gives up."""


def run(policy: Policy, file: Path) -> None:
    """Throttle until a signal says stop; raises Failure before anything is changed if it cannot start."""
    apply.need_tools()
    with ExitStack() as stack:
        stop = stack.enter_context(_stop_signals())
        server = stack.enter_context(Server())
        apply.refuse_foreign(policy.shaped_interfaces)
        sniffers = [stack.enter_context(Sniffer(interface)) for interface in policy.interfaces]
        Daemon(policy, file, stop, server, sniffers).run()


@contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """A socket that becomes readable when a signal says stop; until then nothing is interrupted half-way."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = {number: signal.signal(number, lambda *_: None) for number in _STOP_SIGNALS}
        wakeup = signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)


class Daemon:
    """The loop over signals, packets and status requests."""

    def __init__(
        self, policy: Policy, file: Path, stop: socket.socket, server: Server, sniffers: Sequence[Sniffer]
    ) -> None:
        self._interfaces = policy.shaped_interfaces
        self._file = file
        self._stop = stop
        self._server = server
        self._sniffers = sniffers
        self._engine = Engine(policy)
        self._order = InOrder()
        self._started = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._selector.register(stop, selectors.EVENT_READ)
        self._selector.register(server, selectors.EVENT_READ)
        for sniffer in sniffers:
            self._selector.register(sniffer, selectors.EVENT_READ)

    def run(self) -> None:
        """Until the stop signal. When nft or tc fails everything is taken down and put up again, once in a while."""
        plan, last_failure = None, float("-inf")
        while True:
            apply.remove_leftovers()
            with apply.installed(self._interfaces) as links:
                if plan is None:
                    print("ready", flush=True)
                failure = self._loop(links, plan)
            if failure is None:
                return
            if time.monotonic() - last_failure < _BETWEEN_FRESH_STARTS:
                raise failure
            last_failure = time.monotonic()
            _log(f"{failure}: starting afresh")
            apply.refuse_foreign(self._interfaces)
            plan = self._engine.start_afresh()

    def _loop(self, links: Mapping[str, Link], plan: Plan | None) -> Failure | None:
        """Returns None on the stop signal, or the failure of a step that may be in the kernel in part."""
        try:
            self._take(plan, links)
            while self._serve():
                self._take(self._engine.see(self._segments()), links)
        except StepFailed as failed:
            return failed.failure
        return None

    def _take(self, plan: Plan | None, links: Mapping[str, Link]) -> None:
        if plan is None:
            return
        if not plan.is_empty:
            try:
                apply.carry_out(plan, links)
            except Failure as failure:
                raise StepFailed(failure) from failure
        self._engine.commit(plan)
        for line in log_lines(plan):
            _log(line)

    def _serve(self) -> bool:
        """Wait for something to do; answers status requests; returns False on the stop signal."""
        unfinished = self._server.send()
        ready = {key.fileobj for key, _ in self._selector.select(self._patience(unfinished))}
        if self._server in ready:
            self._server.accept(self._status)
        return self._stop not in ready

    def _patience(self, replies_unfinished: bool) -> float | None:
        """Seconds to wait, or None for ever."""
        if self._order.is_holding:
            return 0
        return 0.05 if replies_unfinished else None

    def _segments(self) -> list[Segment]:
        complete_until = time.time_ns()
        everything: list[Segment] = []
        for sniffer in self._sniffers:
            found = list(sniffer.segments(_BATCH))
            if len(found) == _BATCH:
                complete_until = min(complete_until, found[-1].time)
            everything += found
        return self._order.sort(everything, complete_until)

    def _status(self) -> dict[str, Any]:
        return {
            "policy": str(self._file),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "capture": {sniffer.interface: sniffer.counts() for sniffer in self._sniffers},
            **self._engine.status(time.time_ns()),
        }


class StepFailed(Exception):
    """A plan could not be carried out, or only in part."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
