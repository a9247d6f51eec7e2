"""The daemon: reads its source, carries out the plans, answers other commands, and leaves nothing behind."""

import gc
import selectors
import signal
import socket
import time
from collections.abc import Callable
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
from throttler.service.installation import Installation, StepFailed
from throttler.service.state import Store
from throttler.shaping import apply
from throttler.sources.source import Source
from tributary.daemons import notify
from tributary.daemons.control import Answer
from tributary.daemons.exchange import Server
from tributary.daemons.logs import Level, Log
from tributary.daemons.signals import caught
from tributary.settings.failure import Exit, Failure

if TYPE_CHECKING:
    from throttler.service.metrics import Exporter

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BETWEEN_FRESH_STARTS = 10.0
"""Seconds: two failures of nft or tc in a shorter time, and the daemon gives up."""
_LONGEST_WAIT = 1.0
"""Seconds: the log's summaries, time-outs of connections."""


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
        signals = stack.enter_context(caught(*_SIGNALS))
        server = stack.enter_context(CONTROL.server())
        page = stack.enter_context(metrics_server.server(*setup.metrics)) if setup.metrics else None
        store, quotas = Store(setup.state), Quotas()
        store.load_into(quotas, setup.policy.rules, _local_time())
        engine = Engine(setup.policy, quotas, _local_time)
        apply.refuse_foreign(engine.layout.devices)
        source = stack.enter_context(open_source())
        Daemon(setup, engine, source, store, signals, server, page).run()


def _local_time() -> datetime:
    return datetime.now().astimezone()


class Daemon:
    """The loop over signals, events, requests and time."""

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
        self._signals = signals
        self._server = server
        self._page = page
        self._installation = Installation(engine, setup.log)
        self._commands = Commands(setup.file, engine, self._installation, source)
        self._store = store
        self._failed: StepFailed | None = None
        self._next_save = 0
        self._watchdog = notify.watchdog_interval()
        self._next_watchdog = 0.0
        self._selector = selectors.DefaultSelector()
        for descriptor in (signals, server, *((page,) if page else ()), *source.descriptors):
            self._selector.register(descriptor, selectors.EVENT_READ)

    def run(self) -> None:
        """Until a stop signal. When nft or tc fails everything is taken down and put up again, once in a while."""
        last_failure, is_ready = float("-inf"), False
        plan = self._engine.see(self._source.start(), time.monotonic_ns())
        while True:
            with self._installation.standing():
                try:
                    self._installation.take(plan)
                    if not is_ready:
                        self._get_ready()
                        is_ready = True
                    self._loop()
                    return
                except StepFailed as failed:
                    failure = failed.failure
            if time.monotonic() - last_failure < _BETWEEN_FRESH_STARTS:
                raise failure
            last_failure = time.monotonic()
            self._log.event("starting afresh", Level.WARNING, reason=str(failure))
            apply.refuse_foreign(self._engine.layout.devices)
            plan = self._engine.start_afresh(time.monotonic_ns())

    def _get_ready(self) -> None:
        # What is here now stays. Sessions hold no cycles, so the collector has little to find and much to look through.
        gc.freeze()
        gc.set_threshold(100_000, 20, 50)
        print("ready", flush=True)
        notify.send(notify.READY, notify.status(f"by {self._source.which}"))

    def _loop(self) -> None:
        """Returns on a stop signal; raises StepFailed."""
        while self._serve():
            events = self._source.events(self._engine.sessions.known)
            self._installation.take(self._engine.see(events, time.monotonic_ns()))
            self._keep_time()
        notify.send(notify.STOPPING)
        try:
            self._installation.read_quotas(everything=True)
        except StepFailed as failed:
            # A stop is a stop: what cannot be read any more is not worth a fresh start.
            self._log.event("quotas not read", Level.ERROR, reason=str(failed))
        self._save()
        self._log.close()

    def _serve(self) -> bool:
        """Wait for something to do; answers requests; returns False on a stop signal."""
        ready = {key.fileobj for key, _ in self._selector.select(self._patience())}
        self._server.serve(self._respond)
        if self._page is not None:
            self._page.serve(self._scrape)
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        return self._signals not in ready or self._heed()

    def _patience(self) -> float:
        """Seconds to wait for a descriptor."""
        if self._source.is_holding:
            return 0
        quota = self._engine.quotas.next_reading
        due = min(self._engine.next_tick(), self._next_save, *((quota,) if quota else ()))
        return max(0.0, min((due - time.monotonic_ns()) / SECOND, (self._watchdog or 2) / 2, _LONGEST_WAIT))

    def _keep_time(self) -> None:
        """What is due by the clock: rules that come into force, drained classes, quotas, the watchdog, the log."""
        now = time.monotonic_ns()
        if now >= self._engine.next_tick():
            self._installation.take(self._engine.tick(now))
        self._installation.read_quotas()
        if now >= self._next_save:
            self._next_save = now + LONGEST
            self._save()
        if self._watchdog is not None and time.monotonic() >= self._next_watchdog:
            self._next_watchdog = time.monotonic() + self._watchdog / 2
            notify.send(notify.WATCHDOG)
        self._log.flush()

    def _save(self) -> None:
        try:
            self._store.save(self._engine.quotas.dump())
        except Failure as failure:
            self._log.event("quotas not saved", Level.ERROR, reason=str(failure))

    def _heed(self) -> bool:
        """Do what the signals say; returns False if one says stop."""
        numbers = self._signals.recv(64)
        if any(number in (signal.SIGTERM, signal.SIGINT) for number in numbers):
            return False
        notify.send(notify.reloading(time.monotonic_ns()))
        try:
            self._commands.reload()
            self._log.event("reloaded")
        except Failure as failure:
            self._log.event("not reloaded", Level.ERROR, reason=str(failure))
        notify.send(notify.READY)
        return True

    def _respond(self, request: bytes, asker: socket.socket) -> bytes:
        return CONTROL.respond(request, asker, self._answer, FOR_ANYBODY)

    def _answer(self, asked: Answer) -> Answer:
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

    def _scrape(self, request: bytes, _asker: socket.socket) -> bytes:
        try:
            return metrics_server.respond(request, lambda: self._exporter.page(self._commands.status()))
        except Exception as error:
            # Whoever reads metrics must not end what they are about.
            self._log.event("metrics failed", Level.ERROR, reason=repr(error))
            return metrics_server.failed()
