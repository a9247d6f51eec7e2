"""The daemon: reads its source, carries out the plans, answers other commands, and leaves nothing behind."""

import gc
import signal
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from throttler.policy.model import Policy
from throttler.policy.quotas import LONGEST, SECOND, Quotas
from throttler.service import metrics_server
from throttler.service.commands import FOR_ANYBODY, Commands
from throttler.service.control import CONTROL
from throttler.service.engine import Engine
from throttler.service.events import CounterRead, Emptied, EngineEvent, Stopping
from throttler.service.installation import Installation, StepFailed
from throttler.service.report import Report
from throttler.service.state import Store
from throttler.shaping import apply
from throttler.shaping.plan import Plan
from throttler.sources.source import Source
from tributary.daemons.control import Answer
from tributary.daemons.exchange import Server
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Loop
from tributary.daemons.signals import caught
from tributary.settings.failure import Exit, Failure

if TYPE_CHECKING:
    from throttler.service.metrics import Exporter

_STOP = (signal.SIGTERM, signal.SIGINT)
_RELOAD = signal.SIGHUP
_BETWEEN_FRESH_STARTS = 10.0
"""Seconds: two failures of nft or tc in a shorter time, and the daemon gives up."""


@dataclass(frozen=True)
class Setup:
    """What the command line says."""

    policy: Policy
    file: Path
    state: Path
    metrics: tuple[str, int] | None
    log: Log


def run(setup: Setup, open_source: Callable[[], Source]) -> None:
    """Throttle until a signal says stop; raises Failure before anything is changed if it cannot start."""
    apply.need_tools()
    with ExitStack() as stack:
        signals = stack.enter_context(caught(*_STOP, _RELOAD))
        server = stack.enter_context(CONTROL.server())
        page = stack.enter_context(metrics_server.server(*setup.metrics)) if setup.metrics else None
        store, quotas = Store(setup.state), Quotas()
        store.load_into(quotas, setup.policy.rules, _local_time())
        engine = Engine(setup.policy, quotas, _local_time)
        source = stack.enter_context(open_source())
        Daemon(setup, engine, source, store, signals, server, page).run()


def _local_time() -> datetime:
    return datetime.now().astimezone()


class Daemon:
    """Feeds the engine, carries out what it plans, and answers other commands."""

    def __init__(
        self,
        setup: Setup,
        engine: Engine,
        source: Source,
        store: Store,
        signals: socket.socket,
        server: Server,
        page: Server | None,
    ) -> None:
        self._log = setup.log
        self._engine = engine
        self._source = source
        self._store = store
        self._installation = Installation(setup.log)
        self._commands = Commands(setup.file, setup.policy, engine, source, self._feed)
        self._readings: list[CounterRead] = []
        self._failed: StepFailed | None = None
        self._next_save = 0
        servers = {server: self._respond} | ({page: self._scrape} if page else {})
        self._loop = Loop(signals, _STOP, servers, source.descriptors, setup.log)

    def run(self) -> None:
        """Until a stop signal. When nft or tc fails everything is taken down and put up again, once in a while."""
        with self._commands.reporter:
            self._run()

    def _run(self) -> None:
        last_failure = float("-inf")
        plan = self._see(self._source.start())
        _spare_the_collector()
        while True:
            with self._installation.standing(plan):
                try:
                    self._take(plan)
                    self._loop.run(self)
                    self._end()
                    return
                except StepFailed as failed:
                    failure = failed.failure
            if time.monotonic() - last_failure < _BETWEEN_FRESH_STARTS:
                raise failure
            last_failure = time.monotonic()
            self._log.event("starting afresh", Level.WARNING, reason=str(failure))
            plan = self._see([Emptied()])

    def _see(self, events: Iterable[EngineEvent]) -> Plan:
        """What follows from what the counters showed last, and then from ``events``."""
        readings, self._readings = self._readings, []
        return self._engine.see((*readings, *events), time.monotonic_ns())

    def _take(self, plan: Plan) -> None:
        """Read what ``plan`` says, for the next turn, and carry it out."""
        # One by one: what was read before one failed counts.
        self._readings.extend(self._installation.read(plan))
        self._installation.carry_out(plan)

    def _feed(self, events: Iterable[EngineEvent]) -> Plan:
        plan = self._see(events)
        self._take(plan)
        return plan

    def _end(self) -> None:
        """Read what is used of the quotas. No plan is carried out any more: everything is taken down."""
        try:
            self._readings.extend(self._installation.read(self._see([Stopping()])))
            self._see([])
        except StepFailed as failed:
            # A stop is a stop: what cannot be read any more is not worth a fresh start.
            self._log.event("quotas not read", Level.ERROR, reason=str(failed))
        self._save()
        self._log.close()

    @property
    def status(self) -> str:
        """Who sees the subflows."""
        return f"by {self._source.which}"

    @property
    def deadline(self) -> float:
        """When the next turn is due, by time.monotonic()."""
        if self._source.is_holding or self._readings:
            return 0
        return min(self._engine.deadline / SECOND, self._next_save / SECOND, self._commands.reporter.deadline)

    def turn(self) -> None:
        """See what happened, and what is due; raises StepFailed, also for a request before."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        self._feed(self._source.events(self._engine.known))
        self._commands.reporter.turn()
        if (now := time.monotonic_ns()) >= self._next_save:
            self._next_save = now + LONGEST
            self._save()

    def reload(self) -> None:
        """Decide by what is in the policy's file now; raises Failure, or StepFailed."""
        self._commands.reload()

    def _save(self) -> None:
        try:
            self._store.save(self._engine.used_of_quotas())
        except Failure as failure:
            self._log.event("quotas not saved", Level.ERROR, reason=str(failure))

    def _respond(self, request: bytes, asker: socket.socket) -> bytes | Future[bytes]:
        return CONTROL.respond(request, asker, self._answer, FOR_ANYBODY)

    def _answer(self, asked: Answer) -> Answer | Future[bytes]:
        try:
            return self._commands.answer(asked)
        except StepFailed as failed:
            self._failed = failed
            raise Failure(Exit.SYSTEM, f"{failed.failure}: starting afresh") from failed

    @cached_property
    def _exporter(self) -> "Exporter":
        # Not at the top: nobody else needs the library.
        from throttler.service.metrics import Exporter

        return Exporter()

    def _scrape(self, request: bytes, _asker: socket.socket) -> bytes | Future[bytes]:
        refused = metrics_server.refusal(request)
        return self._commands.reporter.ask(lambda report: self._page(request, report)) if refused is None else refused

    def _page(self, request: bytes, report: Report) -> bytes:
        """Runs beside the loop."""
        try:
            return metrics_server.respond(request, lambda: self._exporter.page(report.whole))
        except Exception as error:
            # Whoever reads metrics must not end what they are about.
            self._log.event("metrics failed", Level.ERROR, reason=repr(error))
            return metrics_server.failed()


def _spare_the_collector() -> None:
    # What is here now stays. Sessions hold no cycles, so the collector has little to find and much to look through.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
