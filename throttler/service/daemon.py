"""The daemon: reads its source, applies the plans, answers commands, and removes everything at its end."""

import gc
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from throttler.policy.model import Policy
from throttler.policy.quotas import SECOND, Quotas, Use
from throttler.service.commands import Commands
from throttler.service.engine import Engine
from throttler.service.events import CounterRead, EngineEvent, InterfacesChanged, KernelReset, Shutdown
from throttler.service.report import Report
from throttler.service.silence import Silence
from throttler.service.state import Store
from throttler.shaping.backend import KernelBackend, StepFailed
from throttler.shaping.plan import Plan
from throttler.sources.source import Source, SourceKind
from tributary.api.places import THROTTLER
from tributary.daemons import logs, metrics_server
from tributary.daemons.control import Request, Response
from tributary.daemons.logs import Level
from tributary.daemons.loop import Loop
from tributary.daemons.state_file import to_log
from tributary.kernel import interfaces, nft_tables
from tributary.kernel.interfaces import Numbers
from tributary.mptcp.events import Ended, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import Target

if TYPE_CHECKING:
    from throttler.service.metrics import Exporter

_BETWEEN_SAVES = 60.0
"""Seconds between two saves of quotas, to spare SD cards: a crash loses as much."""
_BETWEEN_LOOKS = 60.0
"""Seconds between two checks for silent subflows at most."""
_BETWEEN_TABLE_CHECKS = 0.25
"""Seconds."""
_SILENT_AT_ONCE = 500
"""Silent subflows that are ended in one step."""
_BETWEEN_RESETS = 10.0
"""Seconds: after two failures of nft or tc in a shorter time the daemon ends."""


@dataclass(frozen=True)
class Options:
    """The command line's."""

    policy: Path
    metrics: Target | None
    log: logs.Format
    state: Path


def _local_time() -> datetime:
    return datetime.now().astimezone()


class Daemon:
    """Feeds the engine, applies its plans, and answers commands."""

    def __init__(self, policy: Policy, options: Options, open_source: Callable[[], Source], stack: ExitStack) -> None:
        """``stack`` closes what it opens; raises CommandError."""
        self._log = log = logs.to_stderr(options.log)
        self._loop = loop = stack.enter_context(Loop(log, reloads=True))
        loop.answer(THROTTLER, self._answer)
        self._interfaces = stack.enter_context(interfaces.watch())
        self._tables: dict[str, int | None] = {}
        """The nft tables that are installed, with the kernel's numbers."""
        self._next_table_check = 0.0
        if options.metrics:
            loop.serve(stack.enter_context(metrics_server.server(options.metrics)), self._scrape)
        self._store, quotas = Store(options.state), Quotas()
        self._store.load_into(quotas, policy.rules, _local_time(), to_log(self._log))
        self._engine = Engine(policy, quotas, _local_time)
        self._source = source = stack.enter_context(open_source())
        self._there: Numbers = {}
        # The kernel source reports the end of every subflow.
        self._silence, self._next_silence = Silence(), 0.0 if source.kind is SourceKind.SNIFFER else float("inf")
        self._silent: Future[list[FourTuple]] | None = None
        self._kernel = KernelBackend(log, lambda: self._commands.policy.privacy)
        self._readings: list[CounterRead] = []
        self._failed: StepFailed | None = None
        self._next_save = 0.0
        loop.watch(source, self._interfaces)
        self._commands = Commands(options.policy, policy, self._engine, source, self._feed, loop.reload_in, log)

    def run(self) -> None:
        """Run until a stop signal. When nft or tc fails, everything is removed and installed again."""
        with self._commands.reporter:
            try:
                self._run()
            finally:
                self._save().result()
                self._log.close()

    def _run(self) -> None:
        last_failure = float("-inf")
        self._there = interfaces.numbers()
        self._commands.begin_steering()
        self._commands.watch(self._commands.policy, self._there)
        self._log_absent(self._there.keys())
        plan = self._handle([InterfacesChanged(frozenset(self._there)), *self._source.start()])
        _spare_the_collector()
        while (failed := self._run_with(plan)) is not None:
            there = interfaces.numbers()
            # An interface that has gone meanwhile may be what failed.
            if not failed.by_others and there == self._there:
                if time.monotonic() - last_failure < _BETWEEN_RESETS:
                    raise failed.failure
                last_failure = time.monotonic()
            self._log.event("reset", Level.WARNING, reason=str(failed.failure))
            plan = self._handle([*(event for each in self._follow(there) for event in each), KernelReset()])

    def _run_with(self, plan: Plan) -> StepFailed | None:
        """Install ``plan``, and run until a stop signal; returns the failure that ended it otherwise.

        Raises CommandError if it cannot be installed.
        """
        try:
            with self._kernel.installed(plan):
                self._note_tables()
                try:
                    self._take(plan)
                    self._loop.run(self)
                    self._end()
                except StepFailed as failed:
                    failed.by_others |= nft_tables.are_lost(self._tables)
                    return failed
        except CommandError as failure:
            if interfaces.numbers() == self._there:
                raise
            return StepFailed(failure)
        return None

    def _handle(self, events: Iterable[EngineEvent]) -> Plan:
        """The plan that follows from the last readings, and then from ``events``."""
        readings, self._readings = self._readings, []
        return self._engine.handle((*readings, *events), time.monotonic_ns())

    def _take(self, plan: Plan) -> None:
        """Read the counters that ``plan`` names, for the next turn, and apply it."""
        # One by one: what was read before one failed counts.
        self._readings.extend(starmap(CounterRead, self._kernel.read(plan)))
        self._kernel.apply(plan)
        if plan.topology is not None:
            self._note_tables()

    def _note_tables(self) -> None:
        self._tables = {table: nft_tables.handle(table) for table in self._kernel.tables}

    def _feed(self, events: Iterable[EngineEvent]) -> Plan:
        plan = self._handle(events)
        self._take(plan)
        return plan

    def _end(self) -> None:
        """Use all paths again. Read what is used of the quotas. No plan is applied any more: everything is removed."""
        self._commands.steering.end()
        try:
            self._readings.extend(starmap(CounterRead, self._kernel.read(self._handle([Shutdown()]))))
        except StepFailed as failed:
            # A failed reading at the stop is not worth a reset.
            self._log.event("quotas not read", Level.ERROR, reason=str(failed))
        self._handle([])

    @property
    def status(self) -> str:
        """The source, for ``systemctl status``."""
        return f"by {self._source.kind}"

    @property
    def deadline(self) -> float:
        """When the next turn is due, by time.monotonic()."""
        if self._source.has_pending or self._readings:
            return 0
        commands = self._commands
        due = (self._next_save, self._next_silence, commands.reporter.deadline, commands.steering.deadline)
        return min(self._engine.deadline / SECOND, self._next_table_check, *due)

    def turn(self) -> None:
        """Handle events and what is due; raises StepFailed, also for an earlier request."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        self._check_tables()
        if self._interfaces.has_changes():
            for events in self._follow(interfaces.numbers()):
                self._feed(events)
        found = self._source.events(self._engine.sessions.known)
        self._feed(found)
        self._look_for_silent()
        joined = any(isinstance(event, SubflowEstablished) and not event.initial for event in found)
        self._commands.steering.advance(self._commands.steering_mode, joined)
        if (now := time.monotonic()) >= self._next_save:
            self._next_save = now + _BETWEEN_SAVES
            self._save()
        self._commands.reporter.turn()

    def _check_tables(self) -> None:
        """Raise StepFailed if another program has removed them, or the kernel does not say."""
        if (now := time.monotonic()) < self._next_table_check:
            return
        self._next_table_check = now + _BETWEEN_TABLE_CHECKS
        try:
            are_lost = nft_tables.are_lost(self._tables)
        except CommandError as error:
            raise StepFailed(error) from error
        if are_lost:
            raise StepFailed(CommandError(Exit.SYSTEM, "another program has removed the throttler's nft tables"))

    def _follow(self, there: Numbers) -> Iterator[list[EngineEvent]]:
        """The events that follow from the interfaces that exist now, step by step.

        An interface that was replaced between two checks has lost its classes.
        """
        before, self._there = self._there, there
        named = set(self._commands.policy.interfaces)
        gone = {name for name, number in before.items() if there.get(name) != number} & named
        came = {name for name, number in there.items() if before.get(name) != number} & named
        if gone or came:
            self._commands.watch(self._commands.policy, there)
        if gone:
            self._log_absent(before.keys() - gone)
            ended = self._source.drop(self._engine.sessions.on_interfaces(gone), Ended.GONE)
            yield [InterfacesChanged(frozenset(before.keys() - gone)), *ended]
        for name in sorted(came):
            self._log.event("interface there", interface=name)
        yield [InterfacesChanged(frozenset(there))]

    def _log_absent(self, there: Collection[str]) -> None:
        for name in self._commands.policy.interfaces:
            if name not in there:
                self._log.event("interface not there", Level.WARNING, interface=name)

    def _look_for_silent(self) -> None:
        """End the subflows that have been silent for too long, some at a time."""
        longest = self._commands.policy.limits.idle.seconds
        if self._silent is None:
            if time.monotonic() >= self._next_silence:
                self._silent = self._commands.reporter.ask(
                    lambda report: self._silence.look(report, round(longest * SECOND))
                )
                self._next_silence = float("inf")
        elif self._silent.done():
            names, self._silent = self._silent.result(), None
            self._feed(self._source.drop(names[:_SILENT_AT_ONCE], Ended.TIMEOUT))
            rest = len(names) > _SILENT_AT_ONCE
            self._next_silence = time.monotonic() + (0 if rest else min(_BETWEEN_LOOKS, longest / 8))

    def reload(self) -> None:
        """Read the policy's file again; raises CommandError, or StepFailed."""
        self._commands.reload()

    def _save(self) -> Future[None]:
        uses = self._engine.quotas.used()
        return self._commands.reporter.do(lambda: self._write(uses))

    def _write(self, uses: Sequence[Use]) -> None:
        """Runs beside the loop: a disk may take its time."""
        try:
            self._store.save(uses)
        except CommandError as failure:
            self._log.event("quotas not saved", Level.ERROR, reason=str(failure))

    def _answer(self, asked: Request) -> Response | Future[bytes]:
        try:
            return self._commands.answer(asked)
        except StepFailed as failed:
            self._failed = failed
            raise CommandError(Exit.SYSTEM, f"{failed.failure}: resetting") from failed

    @cached_property
    def _exporter(self) -> "Exporter":
        # Not at the top: nothing else needs the library.
        from throttler.service.metrics import Exporter

        return Exporter()

    def _scrape(self, request: bytes, _peer: socket.socket) -> bytes | Future[bytes]:
        refused = metrics_server.refusal(request)
        return self._commands.reporter.ask(lambda report: self._page(request, report)) if refused is None else refused

    def _page(self, request: bytes, report: Report) -> bytes:
        """Runs beside the loop."""
        return metrics_server.answer(request, lambda: self._exporter.page(report.totals, report.carried), self._log)


def _spare_the_collector() -> None:
    # Objects of the start stay. Sessions have no cycles, so the collector would find little and scan much.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
