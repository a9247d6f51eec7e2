"""The daemon: looks when something has changed, carries out what follows from it, and answers ``router status``."""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from router import report, signals
from router.control import CONTROL
from router.debounce import Debounce
from router.difference import Step, command
from router.examination import Examination
from router.keeper import Decision, Keeper
from router.kernel import clock, preflight
from router.kernel.counters import octets, packets
from router.kernel.door import BY_PROGRAMS, Door
from router.kernel.watch import Watch
from router.memory import Store
from router.prober import Prober
from router.probes import Probes, Question
from router.quality import Quality
from router.resolver import Resolver
from router.settings import RouterSettings, read
from router.stillness import Stillness
from router.usage import Allowance
from router.usage_file import UsageFile
from tributary.daemons import directories
from tributary.daemons.control import Request, Response
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Descriptor, Loop
from tributary.daemons.request_server import Server
from tributary.daemons.signals import caught
from tributary.mptcp import sockets
from tributary.mptcp.events import SubflowClosed
from tributary.mptcp.path_manager import EventsLost, PathManager
from tributary.process import TimedOut
from tributary.settings.errors import CommandError, Exit

_BETWEEN_LOOKS = 30.0
"""Seconds at most: nobody tells when somebody else removes an endpoint, or when a link's hours begin or end."""
_BETWEEN_NAMES, _BETWEEN_NAMES_LOST = 60.0, 5.0
"""Seconds between two look-ups of the gateways' names, while the gateway answers and while it does not."""
_AFTER_FAILURE = 1.0
"""Seconds to the first try after a step that failed; it doubles up to the time above."""
_BETWEEN_MEASURES = 1.0
"""Seconds between two readings of what links have carried, while that matters."""
_EVENTS = 1000
"""Of MPTCP, read at once."""


@dataclass(frozen=True)
class Setup:
    """What the command line says."""

    file: Path
    settings: RouterSettings
    state: Path
    usage: UsageFile
    log: Log


def run(setup: Setup) -> None:
    """Keep the links until a signal says stop; raises CommandError before anything is changed if it cannot start."""
    preflight.check()
    with ExitStack() as stack:
        received = stack.enter_context(caught(*signals.STOP, signals.LEAVE, signals.RELOAD))
        server = stack.enter_context(CONTROL.server())
        door = stack.enter_context(Door())
        store = Store(setup.state, directories.namespace())

        def tell(what: str) -> None:
            setup.log.event("state file damaged", Level.ERROR, reason=what)

        keeper = Keeper(setup.settings, store.load(tell), setup.usage.load(tell))
        inputs = Inputs(
            received,
            server,
            stack.enter_context(Watch()),
            stack.enter_context(PathManager(lambda _: None)),
            stack.enter_context(Prober[Question]()),
            stack.enter_context(Resolver()),
            stack.enter_context(Examination()),
        )
        Daemon(setup, keeper, door, store, inputs).run()


@dataclass(frozen=True)
class Inputs:
    """What the daemon waits for: signals, ``router status``, changes, MPTCP's events, probes, names, examinations."""

    signals: socket.socket
    server: Server
    watch: Watch
    events: PathManager
    prober: Prober[Question]
    resolver: Resolver
    examination: Examination


class Daemon:
    """What follows from changes, events, probes, requests and time."""

    def __init__(self, setup: Setup, keeper: Keeper, door: Door, store: Store, inputs: Inputs) -> None:
        self._file, self._log = setup.file, setup.log
        self._keeper = keeper
        self._door = door
        self._store, self._usage_file = store, setup.usage
        self._saved = keeper.memory
        self._watch, self._events = inputs.watch, inputs.events
        self._resolver, self._next_names = inputs.resolver, 0.0
        self._stillness, self._next_count = Stillness(), 0.0
        self._next_measure = 0.0
        self._quality = Quality(setup.settings)
        self._probes = Probes(inputs.prober, keeper, self._quality, setup.log, self._tell)
        self._debounce = Debounce()
        self._next_look = 0.0
        self._failed_looks = 0
        self._names: dict[int, str] = {}
        self._started = time.monotonic()
        self._examination = inputs.examination
        stop = (*signals.STOP, signals.LEAVE)
        watched: list[Descriptor] = [inputs.watch, inputs.events, inputs.prober, inputs.resolver]
        watched += inputs.examination.descriptors
        self._loop = Loop(inputs.signals, stop, {inputs.server: self._respond}, watched, setup.log)

    def run(self) -> None:
        """Until a stop signal; takes all away then, unless the signal says to leave it to the next start."""
        self._look()
        if self._keeper.gateways.current:
            # The tunnels that this one made have their routes by the next, and are ready then.
            self._look()
        ending = self._loop.run(self)
        self._save_usage(time.monotonic(), is_last=True)
        if ending == signals.LEAVE:
            self._log.event("left in place for the next start")
        else:
            self._withdraw()
        self._log.close()

    @property
    def status(self) -> str:
        """How many links are up."""
        links = self._keeper.links
        return f"{sum(self._keeper.state(link) is None for link in links)} of {len(links)} links up"

    @property
    def deadline(self) -> float:
        """When the next turn is due, by time.monotonic()."""
        keeper = self._keeper
        names = self._next_names if keeper.gateways.names else None
        count = self._next_count if keeper.leg and keeper.leg.answers else None
        measure = self._next_measure if keeper.counted else None
        examined = self._examination.next_due(keeper)
        own = (self._debounce.due, self._probes.next_due, names, count, measure, examined)
        return min(each for each in (self._next_look, *own, keeper.repairs.next_due) if each is not None)

    def turn(self) -> None:
        """Hear what happened, and do what is due; the look comes first, since probes and repairs go by it."""
        now = time.monotonic()
        if self._watch.has_changes():
            self._debounce.change(now)
        self._read_events(now)
        if self._probes.hear(now):
            self._next_look = now
        self._look_up(now)
        self._measure(now)
        if self._examination.turn(self._keeper, now, self._log):
            self._next_look = now
        if now >= min(self._next_look, self._debounce.due or self._next_look):
            self._attempt(self._look)
        self._count(now)
        self._probes.begin(now)
        if (repair := self._keeper.repairs.next_due) is not None and now >= repair:
            self._attempt(self._repair)

    def reload(self) -> None:
        """Go by what is in the settings' file now."""
        settings = read(self._file)
        self._keeper.change_settings(settings)
        self._quality.change_settings(settings)
        self._next_names = 0.0
        self._attempt(self._look)

    def _attempt(self, act: Callable[[], None]) -> None:
        """What fails now is no reason to end: the next look comes soon."""
        try:
            act()
        except CommandError as failure:
            self._failed_looks += 1
            self._next_look = time.monotonic() + self._pause()
            self._log.event("failed", Level.ERROR, reason=str(failure))

    def _look(self) -> None:
        self._debounce.looked()
        observed = self._door.look()
        self._names = {interface.index: interface.name for interface in observed.interfaces}
        taken = self._keeper.names_taken
        decision = self._keeper.look(observed, time.time(), is_right=clock.is_right())
        self._tell_changes(decision)
        for name in self._keeper.names_taken - taken:
            self._log.event("name taken", Level.ERROR, interface=name, reason="not made by us: this tunnel is left out")
        is_well = self._carry_out(decision.steps)
        self._probes.speak_up(decision.steps, time.monotonic())
        is_well &= self._quality.look(self._keeper.links, observed, time.monotonic(), self._tell)
        self._failed_looks = 0 if is_well else self._failed_looks + 1
        self._next_look = time.monotonic() + self._pause()

    def _pause(self) -> float:
        if self._failed_looks == 0:
            return _BETWEEN_LOOKS
        return min(_AFTER_FAILURE * 2.0 ** min(self._failed_looks - 1, 5), _BETWEEN_LOOKS)

    def _tell_changes(self, decision: Decision) -> None:
        for change in decision.changes:
            interface = change.link.interface.name if change.link.interface else None
            if change.down is None:
                addresses = ",".join(str(address) for address in change.link.addresses)
                self._log.event("link up", link=change.link.name, interface=interface, addresses=addresses)
            else:
                self._log.event(
                    "link down", Level.WARNING, link=change.link.name, interface=interface, reason=str(change.down)
                )

    def _carry_out(self, steps: tuple[Step, ...]) -> bool:
        """Do the steps, all that can be done; returns whether all could."""
        if self._keeper.memory != self._saved:
            self._store.save(self._keeper.memory)
            self._saved = self._keeper.memory
        failures, hung = 0, False
        for step in steps:
            text = command(step, self._names)
            try:
                if hung and isinstance(step, BY_PROGRAMS):
                    raise CommandError(Exit.SYSTEM, "left for later, since a program before it did not end")
                self._door.carry_out(step)
                self._log.event("done", step=text)
            except (OSError, CommandError) as error:
                hung |= isinstance(error, TimedOut)
                # The world may have changed since the look; the next one tells.
                failures += 1
                self._keeper.failed(step)
                self._log.event("failed", Level.ERROR, step=text, reason=_reason(error))
        if steps and not failures:
            # Endpoints are not told of, and what was done is to be seen once.
            self._debounce.change(time.monotonic())
        return not failures

    def _read_events(self, now: float) -> None:
        try:
            for event in self._events.events(_EVENTS):
                if isinstance(event, SubflowClosed):
                    self._keeper.lost(event, now)
        except EventsLost:
            self._log.event("events lost", Level.WARNING)

    def _repair(self) -> None:
        now = time.monotonic()
        living: defaultdict[int, set[str]] = defaultdict(set)
        try:
            for subflow in sockets.snapshot(0).subflows:
                living[subflow.token].add(subflow.subflow.local)
        except OSError as error:
            self._keeper.repairs.postpone(now)
            raise CommandError(Exit.SYSTEM, f"cannot look at the sockets: {error}") from error
        decision = self._keeper.repair({token: frozenset(each) for token, each in living.items()}, now)
        self._carry_out(decision.steps)

    def _measure(self, now: float) -> None:
        """Read what links have carried."""
        if now < self._next_measure:
            return
        keeper = self._keeper
        counts = {name: octets(interface) for name, interface in keeper.counted.items()}
        waiting, nearly = keeper.overflow.waiting, keeper.usage.at(Allowance.NEARLY)
        if keeper.count({name: each for name, each in counts.items() if each}, self._quality.capacities, now):
            self._next_look = now
        for name in keeper.overflow.waiting ^ waiting:
            self._log.event("overflow link is used" if name in waiting else "overflow link waits", link=name)
        for name in keeper.usage.at(Allowance.NEARLY) - nearly:
            self._log.event("monthly cap nearly used up", Level.WARNING, link=name)
        self._save_usage(now)
        self._next_measure = now + _BETWEEN_MEASURES

    def _save_usage(self, now: float, *, is_last: bool = False) -> None:
        usage = self._keeper.usage
        if not usage.is_worth_saving(now, is_last=is_last):
            return
        try:
            self._usage_file.save(usage)
        except CommandError as failure:
            self._log.event("failed", Level.ERROR, reason=str(failure))
        # Also if it was not: it is tried again when as much more is used.
        usage.saved(now)

    def _tell(self, step: str, why: str | None) -> None:
        if why is None:
            self._log.event("done", step=step)
        else:
            self._log.event("failed", Level.ERROR, step=step, reason=why)

    def _count(self, now: float) -> None:
        """Hear whether a conversation in the tunnel for everything else goes on."""
        if now < self._next_count:
            return
        leg = self._keeper.leg
        tunnel = leg.everything_else if leg and leg.answers else None
        count = packets(tunnel.name, now) if tunnel else None
        if count is None:
            self._stillness.forget()
        elif self._stillness.is_worth_a_question(count):
            self._log.event("no longer answered")
            self._keeper.health.doubt()
        self._next_count = now + self._stillness.interval

    def _look_up(self, now: float) -> None:
        """Where the gateways are; a gateway that does not answer may have moved."""
        gateways = self._keeper.gateways
        if gateways.told(self._resolver.answers()):
            self._log.event("gateway found", addresses=",".join(map(str, gateways.found)))
            self._next_look = now
        if gateways.names and now >= self._next_names:
            self._resolver.ask(gateways.names)
            self._next_names = now + (_BETWEEN_NAMES if self._keeper.health.answers else _BETWEEN_NAMES_LOST)

    def _respond(self, request: bytes, peer: socket.socket) -> bytes | Future[bytes]:
        return CONTROL.respond(request, peer, self._answer, ("status",))

    def _answer(self, asked: Request) -> Response:
        if asked["command"] == "set-usage":
            return self._set_usage(str(asked["link"]), int(asked["used"]))
        if asked["command"] != "status":
            raise CommandError(Exit.USAGE, f"the running router daemon has no command {asked['command']!r}")
        now = time.monotonic()
        status = report.status(self._keeper, time.time(), now)
        for link, shown in zip(self._keeper.links, status["wan"], strict=True):
            shown["shaped"] = self._quality.status(link)
        return {"settings": str(self._file), "uptime_s": round(now - self._started, 3), **status}

    def _set_usage(self, link: str, used: int) -> Response:
        if not self._keeper.usage.set(link, used):
            capped = ", ".join(sorted(self._keeper.usage.capped)) or "none"
            raise CommandError(Exit.USAGE, f"{link}: no link with a monthly_cap; these are: {capped}")
        self._log.event("usage set", link=link, bytes=used)
        self._save_usage(time.monotonic(), is_last=True)
        self._attempt(self._look)
        return {}

    def _withdraw(self) -> None:
        """Take away all that is ours; raises CommandError, exit 71, when everything was tried."""
        errors: list[str] = []
        observed = self._door.look()
        self._quality.withdraw(observed, lambda step, why: errors.append(f"{step}: {why}") if why else None)
        for step in self._keeper.withdrawal(observed):
            try:
                self._door.carry_out(step)
            except (OSError, CommandError) as error:
                errors.append(f"{command(step, self._names)}: {_reason(error)}")
        if errors:
            raise CommandError(Exit.SYSTEM, "left behind: " + "; ".join(errors))
        self._store.forget()


def _reason(error: OSError | CommandError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
