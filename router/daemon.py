"""The daemon: reconciles when something has changed, applies the operations, and answers requests."""

import signal
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from router import kernel_client
from router.api import Status
from router.commands import Commands
from router.debounce import Debounce
from router.kernel_client import runs_a_program
from router.lan.npt import TABLE
from router.lan.tables import LanTables
from router.links.stall import Count, StallDetector
from router.links.usage import CapLevel, UsageFile
from router.live_settings import LiveSettings
from router.probes.diagnostics import LinkDiagnostics
from router.probes.scheduler import ProbeKey, ProbeScheduler
from router.probes.tcp_probe import TcpProbe
from router.settings import RouterSettings, read
from router.shaping.shaper import LinkShapers
from router.state.owned import RecordFile
from router.state.plan import Operation, command, needs_record
from router.state.reconciler import Decision, Reconciler
from router.tunnels.resolver import Resolver
from tributary.api.places import ROUTER
from tributary.daemons import directories
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Loop
from tributary.daemons.metrics_server import MovingServer, Page
from tributary.daemons.state_file import to_log
from tributary.kernel import clock, mptcp_switch, nft_tables, rtnetlink
from tributary.kernel.interfaces import octets, packets
from tributary.kernel.process import TimedOut
from tributary.mptcp import sockets
from tributary.mptcp.events import SubflowClosed
from tributary.mptcp.path_manager import EventsLost, PathManager
from tributary.settings.errors import CommandError, Exit

_RECONCILE_INTERVAL = 30.0
"""Seconds between two reconciliations at most: nothing notifies of removed endpoints, or when a link's hours begin."""
_RESOLVE_INTERVAL, _RESOLVE_INTERVAL_DOWN = 60.0, 5.0
"""Seconds between two resolutions of the gateways' names, while the gateway answers and while it does not."""
_AFTER_FAILURE = 1.0
"""Seconds to the first retry after a failure; it doubles up to the interval above."""
_MEASURE_INTERVAL = 1.0
"""Seconds between two readings of byte counters, while these matter."""
_SERVE_INTERVAL = 0.02
"""Seconds between two looks for requests while a program runs."""
_LEAVE = signal.SIGUSR1
_EVENTS = 1000
"""MPTCP events read at once."""

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """The command line's."""

    file: Path
    settings: RouterSettings
    state: Path
    usage: Path
    log: Log


def run(options: Options) -> None:
    """Manages the links until a signal; raises CommandError before anything is changed if it cannot start."""
    mptcp_switch.require_path_manager()
    with ExitStack() as stack:
        Daemon(options, stack).run()


class Daemon:
    """Reacts to changes, events, probes, requests and time."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        """``stack`` closes what it opens; raises CommandError."""
        self._log, self._usage_file = options.log, UsageFile(options.usage)
        self._settings, settings = LiveSettings(options.file, options.settings), options.settings
        self._loop = loop = stack.enter_context(Loop(self._log, [_LEAVE], reloads=True))
        loop.answer(ROUTER, lambda asked: self._commands.answer(asked))
        self._programs = stack.enter_context(ThreadPoolExecutor(1, "programs"))
        self._store = RecordFile(options.state, directories.namespace())
        self._saved = self._store.load(to_log(self._log))
        self._reconciler = Reconciler(settings, self._saved, self._usage_file.load(to_log(self._log)))
        self._watch = stack.enter_context(rtnetlink.watch())
        self._events = stack.enter_context(PathManager(lambda _: None))
        tcp_probe = stack.enter_context(TcpProbe[ProbeKey]())
        self._resolver, self._next_resolve = Resolver(loop.wake), 0.0
        self._diagnostics = stack.enter_context(LinkDiagnostics(self._reconciler, self._log))
        self._stall_detector, self._next_count = StallDetector(), 0.0
        self._next_measure = 0.0
        self._shapers = LinkShapers(settings, self._aside)
        self._lan = LanTables(options.file.absolute().with_name("lan.nft"))
        self._probes = ProbeScheduler(tcp_probe, self._reconciler, self._shapers, self._log, self._report)
        self._debounce = Debounce()
        self._next_reconcile = 0.0
        self._failures = 0
        self._names: dict[int, str] = {}
        loop.watch(self._watch, self._events, tcp_probe, *self._diagnostics.descriptors)
        self._status = Status(self._settings, self._reconciler, self._shapers)
        usage = self._reconciler.usage
        self._commands = Commands(self, self._settings, self._lan, self._status, usage, loop.reload_in, self._log)
        self._metrics = stack.enter_context(MovingServer(loop, self._page, self._log))

    def run(self) -> None:
        """Runs until a stop signal, then removes all that it owns, unless the signal leaves that to the next start.

        Raises CommandError if what it owns cannot be recorded from the start: nothing is touched then.
        """
        self._store.save(self._saved)
        self._take_file()
        self._reconcile()
        if self._reconciler.gateways.current:
            # The second one adds the routes of the tunnels that the first one created.
            self._reconcile()
        ending = self._loop.run(self)
        self._commands.end()
        self._save_usage(time.monotonic(), is_last=True)
        if ending == _LEAVE:
            self._log.event("left in place for the next start")
        else:
            self._remove_all()
        self._log.close()

    @property
    def status(self) -> str:
        links = self._reconciler.links
        return f"{sum(link.reason is None for link in links)} of {len(links)} links up"

    @property
    def deadline(self) -> float:
        if self._commands.are_waiting:
            return 0.0
        reconciler = self._reconciler
        names = self._next_resolve if reconciler.gateways.names else None
        count = self._next_count if reconciler.gateway_tunnels and reconciler.gateway_tunnels.answers else None
        measure = self._next_measure if reconciler.counted_interfaces else None
        own = (self._debounce.due, self._probes.next_due, names, count, measure, self._diagnostics.next_due)
        return min(each for each in (self._next_reconcile, *own, reconciler.refresher.next_due) if each is not None)

    def turn(self) -> None:
        """Reads what happened, and does what is due. Reconciles first, since probes and refreshes depend on it."""
        now = time.monotonic()
        self._commands.turn()
        if self._watch.has_changes():
            self._debounce.change(now)
        self._read_events(now)
        if self._probes.collect(now):
            self._next_reconcile = now
        self._resolve_gateways(now)
        self._measure(now)
        if self._diagnostics.turn(now):
            self._next_reconcile = now
        if now >= min(self._next_reconcile, self._debounce.due or self._next_reconcile):
            self._try(self._reconcile)
        self._detect_stall(now)
        self._probes.start(now)
        if (repair := self._reconciler.refresher.next_due) is not None and now >= repair:
            self._try(self._refresh_endpoints)

    def reload(self) -> None:
        self.change_settings(read(self._settings.file))

    def change_settings(self, settings: RouterSettings) -> None:
        """Those of the file, or of a trial; drops what was set at run time."""
        self._settings.replace(settings)
        self._take_file()
        self.take_settings()

    def take_settings(self) -> None:
        """Also what was set of links."""
        settings = self._settings.current
        self._reconciler.change_settings(settings)
        self._shapers.change_settings(settings)
        self._next_resolve = 0.0
        self._try(self._reconcile)
        self._status.forget()

    def take_usage(self) -> None:
        self._status.forget()
        self._save_usage(time.monotonic(), is_last=True)
        self._try(self._reconcile)

    def _take_file(self) -> None:
        """What no request changes of the settings."""
        settings = self._settings.current
        self._metrics.listen(settings.metrics.address)
        self._try(lambda: self._lan.change_settings(settings))

    def _page(self) -> Page:
        # Not at the top: nothing else needs the library.
        from router import metrics

        return lambda: metrics.page(self._status.document(time.monotonic()), octets)

    def _aside(self, act: Callable[[], T]) -> T:
        """Runs ``act``, which waits for a program, in a thread; requests for the status are answered meanwhile."""
        result = self._programs.submit(act)
        while not wait((result,), _SERVE_INTERVAL).done:
            self._loop.serve_waiting()
        return result.result()

    def _try(self, act: Callable[[], None]) -> None:
        """A failure does not end the daemon: it reconciles again soon."""
        try:
            act()
        except CommandError as failure:
            self._failures += 1
            self._next_reconcile = time.monotonic() + self._retry_delay()
            self._log.event("failed", Level.ERROR, reason=str(failure))

    def _reconcile(self) -> None:
        self._debounce.reset()
        observed = kernel_client.snapshot()
        self._names = {interface.index: interface.name for interface in observed.interfaces}
        # As `nft flush ruleset` does.
        if self._reconciler.has_translation and nft_tables.handle(f"inet {TABLE}") is None:
            self._reconciler.forget_translation()
        taken, beginning = self._reconciler.names_taken, self._reconciler.beginning
        decision = self._reconciler.reconcile(
            observed, time.time(), time.monotonic(), is_synchronized=clock.is_synchronized()
        )
        self._log_changes(decision)
        if self._reconciler.beginning not in (beginning, None):
            self._log.event("sessions begin on", link=self._reconciler.beginning)
        for name in self._reconciler.names_taken - taken:
            self._log.event(
                "name taken",
                Level.ERROR,
                interface=name,
                reason="another program has created it: the tunnel is omitted",
            )
        all_applied = self._apply(decision.operations)
        self._probes.announce_endpoint(decision.operations, time.monotonic())
        all_applied &= self._shapers.reconcile(self._reconciler.links, observed, time.monotonic(), self._report)
        for table in self._lan.restore(observed.rules):
            self._log.event("loaded again", Level.WARNING, table=table, reason="another program has removed it")
        self._failures = 0 if all_applied else self._failures + 1
        self._next_reconcile = time.monotonic() + self._retry_delay()

    def _retry_delay(self) -> float:
        if self._failures == 0:
            return _RECONCILE_INTERVAL
        return min(_AFTER_FAILURE * 2.0 ** min(self._failures - 1, 5), _RECONCILE_INTERVAL)

    def _log_changes(self, decision: Decision) -> None:
        for link in decision.changes:
            interface = link.interface.name if link.interface else None
            if link.reason is None:
                addresses = ",".join(map(str, link.addresses))
                self._log.event("link up", link=link.name, interface=interface, addresses=addresses)
            else:
                reason = str(link.reason)
                self._log.event("link down", Level.WARNING, link=link.name, interface=interface, reason=reason)

    def _apply(self, operations: tuple[Operation, ...]) -> bool:
        """Applies all operations that it can; returns whether all succeeded."""
        is_saved, timed_out = self._try_save(), False
        failures = 0 if is_saved else 1
        for operation in operations:
            text = command(operation, self._names)
            try:
                if needs_record(operation) and not is_saved:
                    raise CommandError(Exit.SYSTEM, "postponed, since what is owned cannot be saved")
                if not runs_a_program(operation):
                    kernel_client.apply(operation)
                elif timed_out:
                    raise CommandError(Exit.SYSTEM, "postponed, since an earlier program timed out")
                else:
                    self._aside(partial(kernel_client.apply, operation))
                self._log.event("applied", command=text)
            except (OSError, CommandError) as error:
                timed_out |= isinstance(error, TimedOut)
                # The kernel's state may have changed since the snapshot.
                failures += 1
                self._reconciler.on_failure(operation)
                self._log.event("failed", Level.ERROR, command=text, reason=_reason(error))
        if operations and not failures:
            # The kernel does not notify of endpoints; the next snapshot verifies what was applied.
            self._debounce.change(time.monotonic())
        return not failures

    def _try_save(self) -> bool:
        """Saves the record; returns whether that succeeded. On a full /run the router goes on following its links."""
        try:
            self._save_record()
        except CommandError as error:
            self._log.event("failed", Level.ERROR, reason=str(error))
            return False
        return True

    def _save_record(self) -> None:
        """Raises CommandError."""
        if self._reconciler.record != self._saved:
            self._store.save(self._reconciler.record)
            self._saved = self._reconciler.record

    def _read_events(self, now: float) -> None:
        try:
            for event in self._events.events(_EVENTS):
                if isinstance(event, SubflowClosed):
                    self._reconciler.on_subflow_closed(event, now)
        except EventsLost:
            self._log.event("events lost", Level.WARNING)

    def _refresh_endpoints(self) -> None:
        now = time.monotonic()
        living: defaultdict[int, set[str]] = defaultdict(set)
        try:
            for subflow in sockets.snapshot(0).subflows:
                living[subflow.token].add(subflow.subflow.local)
        except OSError as error:
            self._reconciler.refresher.postpone(now)
            raise CommandError(Exit.SYSTEM, f"cannot read the sockets: {error}") from error
        operations = self._reconciler.refresh_endpoints({token: frozenset(each) for token, each in living.items()}, now)
        # No endpoint is removed that cannot be added again.
        self._save_record()
        self._apply(operations)

    def _measure(self, now: float) -> None:
        """Reads what links have carried."""
        if now < self._next_measure:
            return
        reconciler = self._reconciler
        counts = {name: octets(interface) for name, interface in reconciler.counted_interfaces.items()}
        standby, near_cap = reconciler.overflow.standby, reconciler.usage.at(CapLevel.NEAR)
        if reconciler.count({name: each for name, each in counts.items() if each}, self._shapers.capacities, now):
            self._next_reconcile = now
        for name in reconciler.overflow.standby ^ standby:
            self._log.event("overflow link is used" if name in standby else "overflow link on standby", link=name)
        for name in reconciler.usage.at(CapLevel.NEAR) - near_cap:
            self._log.event("monthly cap nearly used up", Level.WARNING, link=name)
        self._save_usage(now)
        self._next_measure = now + _MEASURE_INTERVAL

    def _save_usage(self, now: float, *, is_last: bool = False) -> None:
        usage = self._reconciler.usage
        if not usage.needs_save(now, is_last=is_last):
            return
        try:
            self._usage_file.save(usage)
        except CommandError as failure:
            self._log.event("failed", Level.ERROR, reason=str(failure))
        # Also after a failure: the next try is when as much more is used.
        usage.saved(now)

    def _report(self, operation: str, why: str | None) -> None:
        if why is None:
            self._log.event("applied", command=operation)
        else:
            self._log.event("failed", Level.ERROR, command=operation, reason=why)

    def _detect_stall(self, now: float) -> None:
        """Checks whether traffic in the default tunnel still gets answers."""
        if now < self._next_count:
            return
        gateway_tunnels = self._reconciler.gateway_tunnels
        tunnel = gateway_tunnels.default_tunnel if gateway_tunnels and gateway_tunnels.answers else None
        count = packets(tunnel.name) if tunnel else None
        if count is None:
            self._stall_detector.reset()
        elif tunnel and self._stall_detector.is_stalled(Count(now, *count)):
            self._log.event("default tunnel stalled")
            self._reconciler.forget_configuration(tunnel.name)
            self._next_reconcile = now
            self._reconciler.health.recheck_all()
        self._next_count = now + self._stall_detector.interval

    def _resolve_gateways(self, now: float) -> None:
        """Resolves the gateways' names. A gateway that does not answer may have moved."""
        gateways = self._reconciler.gateways
        if gateways.set_resolved(self._resolver.answers()):
            self._log.event("gateway found", addresses=",".join(map(str, gateways.resolved)))
            self._next_reconcile = now
        if gateways.names and now >= self._next_resolve:
            self._resolver.ask(gateways.names)
            self._next_resolve = now + (
                _RESOLVE_INTERVAL if self._reconciler.health.answers else _RESOLVE_INTERVAL_DOWN
            )

    def _remove_all(self) -> None:
        """Removes all that is owned; raises CommandError, exit 71, at the end if something is left."""
        errors: list[str] = []
        observed = kernel_client.snapshot()
        self._shapers.remove_all(observed, lambda operation, why: errors.append(f"{operation}: {why}") if why else None)
        errors += self._lan.remove()
        for operation in self._reconciler.removal(observed):
            try:
                kernel_client.apply(operation)
            except (OSError, CommandError) as error:
                errors.append(f"{command(operation, self._names)}: {_reason(error)}")
        if errors:
            raise CommandError(Exit.SYSTEM, "left behind: " + "; ".join(errors))
        self._store.remove()


def _reason(error: OSError | CommandError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
