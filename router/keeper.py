"""All of the pure parts in a row: what was observed in, steps out. The clock is the caller's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from router import captive, lan, multipath, policy, tunnels
from router.difference import (
    AddEndpoint,
    ChangeEndpoint,
    MakeTunnel,
    RemoveEndpoint,
    SetTunnel,
    Step,
    Translate,
    difference,
    numbers,
)
from router.gateways import Gateways
from router.health import Health
from router.lan import Lan
from router.links import Link, Reason, links, working
from router.memory import Memory
from router.observed import Address, Endpoint, Limits, Observed, Octets
from router.ours import NUMBERS
from router.overflow import Candidates, Overflow, Rates
from router.path_mtu import Path, Paths
from router.policy import Now
from router.repairs import Repairs
from router.settings import RouterSettings
from router.translation import UNKNOWN
from router.tunnels import Leg
from router.usage import Reading, Usage
from router.wanted import Installed, Wanted, foreign, installed, wanted
from tributary.mptcp.events import Ended, SubflowClosed
from tributary.settings.hosts import CONVERT_PORT, Target
from tributary.settings.links import Use


@dataclass(frozen=True)
class State:
    """Whether a link is used, if not why, and since when, in seconds since 1970."""

    down: str | None
    since: float


@dataclass(frozen=True)
class Change:
    """A link that came up or went down."""

    link: Link
    down: str | None


@dataclass(frozen=True)
class Decision:
    """The steps to carry out, and the links whose state is another one now."""

    steps: tuple[Step, ...]
    changes: tuple[Change, ...] = ()


class Keeper:
    """What is known of the links, and what is ours in the kernel."""

    def __init__(self, settings: RouterSettings, memory: Memory, usage: Usage | None = None) -> None:
        self.settings = settings
        self.memory = memory
        self.usage = usage or Usage()
        self.health = Health(settings.probe)
        self.gateways = Gateways(settings, memory.gateway)
        self.paths = Paths()
        self.verdicts = multipath.Verdicts()
        self.portals = captive.Portals()
        self.leg: Leg | None = None
        self.overflow = Overflow()
        self.repairs = Repairs()
        self.links: tuple[Link, ...] = ()
        self.states: dict[str, State] = {}
        self.endpoints: dict[Address, tuple[int, Endpoint]] = {}
        """Those of ours that stand, when the steps of the last look are done."""
        self.foreign: dict[int, Endpoint] = {}
        self.names_taken: frozenset[str] = frozenset()
        """Names of tunnels that interfaces have which we did not make: these tunnels are left out."""
        self._translation = UNKNOWN if memory.translates else None
        self._prefixes = lan.Prefixes()
        self._taken: frozenset[int] = frozenset()
        self._rounds: dict[str, int] = {}
        """How often links have changed to another address of the gateway since they were answered."""
        self._last = max(memory.endpoints, default=NUMBERS.start - 1)

    def change_settings(self, settings: RouterSettings) -> None:
        """Go by other settings from the next look on; what is known of a gateway that stays is kept, and asked anew."""
        before = self.target, self.gateways.current
        self.settings = settings
        self.gateways.change_settings(settings)
        if (self.target, self.gateways.current) == before:
            self.health.change_probe(settings.probe)
        else:
            self.health = Health(settings.probe)
        # Somebody may have flushed all rules: then this is how they come back.
        self._translation = UNKNOWN if self._translation else None

    @property
    def limits(self) -> Limits:
        """What the settings say."""
        return Limits(self.settings.mptcp.subflows, self.settings.mptcp.accepted_addresses)

    def look(self, observed: Observed, wall: float, *, is_right: bool = True) -> Decision:
        """Decide by what is there; ``wall`` in seconds since 1970, which may not be right yet.

        Keep ``memory`` before the steps are done.
        """
        now = Now(datetime.fromtimestamp(wall, self.settings.time_zone), is_right)
        self.usage.keep(self.settings.wan, now.local.date(), is_right=is_right)
        self.links = policy.allowed(links(self.settings, observed), self.health.dead, self.usage, now)
        names = {*self.settings.tunnel_names, self.settings.scout_name}
        self.names_taken = frozenset(
            each.name for each in observed.interfaces if each.name in names - self.memory.tunnels
        )
        self.leg = self._leg(observed)
        probed = [link for link in self.links if self.probed_by(link)]
        self.health.keep([link.name for link in probed], [link.name for link in probed if link.wan.metered])
        self.overflow.consider(self._candidates())
        self._try_addresses()
        self._keep_examined()
        made = _still_there(self.memory.endpoints, observed)
        self.foreign = foreign(observed, made)
        aims = self._aims(observed, wall)
        ours = self._with_inside(installed(observed, made, aims.endpoints), observed)
        steps = difference(aims, ours, observed.endpoints, self._last)
        self._taken = frozenset(observed.endpoints)
        self._keep(ours.endpoints, steps)
        self.gateways.given |= {step.setup.name: step.setup for step in steps if isinstance(step, SetTunnel)}
        own = frozenset(ours.tunnels) | {step.name for step in steps if isinstance(step, MakeTunnel)}
        self._translation = aims.translation
        limits = self.memory.limits_before or observed.limits
        self.memory = Memory(self._made(made, steps), limits, own, aims.translation is not None, self.gateways.place)
        return Decision(steps, tuple(self._changes(wall)))

    def _try_addresses(self) -> None:
        """Links by which the gateway is silent try its other address: on the way one IP version's UDP may be lost.

        After as many failures as take a link out, then twice as many, and so on.
        """
        enrolment = self.gateways.current
        for link in self.links if enrolment else ():
            record = self.health.records.get(link.name)
            rounds = (record.failures // self.settings.probe.failures).bit_length() if record else 0
            usable = tunnels.outsides(link, self.gateways.found)
            if enrolment and rounds > self._rounds.get(link.name, 0) and len(usable) > 1:
                now = tunnels.outside(link, usable, self.gateways.chosen(enrolment))
                assert now is not None, "one of several"
                self.gateways.choose(enrolment, link.name, usable[(usable.index(now) + 1) % len(usable)])
            self._rounds[link.name] = rounds

    def _leg(self, observed: Observed) -> Leg | None:
        enrolment = self.gateways.current
        if enrolment is None:
            return None
        others = tuple(each for each in observed.interfaces if each.name not in self.names_taken)
        return tunnels.leg(self.settings, enrolment, replace(observed, interfaces=others), self.health.answers)

    def _aims(self, observed: Observed, wall: float) -> Wanted:
        dead, shunned = self.health.dead, self.health.shunned
        aims = wanted(
            self.links,
            dead,
            self.foreign,
            self.limits,
            self.leg,
            bypass=self.settings.bypass,
            shunned=shunned,
            waiting=self.overflow.waiting,
        )
        enrolment = self.gateways.current
        inside = self._lan(observed, working(self.links, {*dead, *shunned}))
        self._prefixes.keep(inside, wall)
        inside = replace(inside, remembered=self._prefixes.remembered)
        aims = replace(
            aims,
            routes=(*aims.routes, *lan.routes(inside)),
            rules=(*aims.rules, *lan.rules(inside)),
            lan=lan.wanted(inside),
            translation=lan.translation(inside),
        )
        if enrolment is None:
            return aims
        found = self.gateways.found
        chosen = self.gateways.chosen(enrolment)
        made = tuple(
            tunnels.setups(self.settings, enrolment, self.links, dead, shunned, found, self.paths.found, chosen)
        )
        names = self.settings.tunnel_names
        if earlier := self.gateways.earlier:
            alive = [link for link in self.links if link.name not in dead and link.name not in shunned]
            asked, turn = self.gateways.found_of(earlier), self.gateways.scout.turn
            made = (*made, *tunnels.scout(self.settings, earlier, alive, asked, turn))
            names = (*names, self.settings.scout_name)
        return replace(
            aims,
            tunnels=tuple(name for name in names if name not in self.names_taken),
            setups=tuple(setup for setup in made if setup.name not in self.names_taken),
        )

    def _lan(self, observed: Observed, working: Sequence[Link] = ()) -> Lan:
        answering = self.gateways.current if self.health.answers else None
        return Lan(self.settings, observed, working, answering)

    def _candidates(self) -> Candidates:
        """Which links are used, and which only when these are full; where there is no primary, one has to be."""
        used = working(self.links, self.health.dead)
        spare = tuple(link.name for link in used if link.wan.use is Use.OVERFLOW)
        front = tuple(link.name for link in used if link.wan.use is Use.PRIMARY) or spare[:1]
        return Candidates(front, tuple(name for name in spare if name not in front))

    @property
    def counted(self) -> dict[str, str]:
        """The interfaces of those links whose bytes matter now."""
        names = self.overflow.counted | self.usage.capped
        return {link.name: link.interface.name for link in self.links if link.interface and link.name in names}

    def count(self, counts: Mapping[str, Octets], rates: Mapping[str, Rates], now: float) -> bool:
        """What the links that are ``counted`` have carried, and what links can now; returns whether a look is due."""
        readings = {
            link.name: Reading(f"{self.usage.boot}/{link.interface.index}", counts[link.name].both)
            for link in self.links
            if link.interface and link.name in counts
        }
        before = {name: self.usage.level(name) for name in self.usage.capped}
        self.usage.read(readings)
        is_other = any(self.usage.level(name) != level for name, level in before.items())
        return self.overflow.count(counts, rates, now) or is_other

    def _with_inside(self, found: Installed, observed: Observed) -> Installed:
        """``found`` with our tunnels that are there, what they were given, and what of ours is for the LAN."""
        there = {interface.name for interface in observed.interfaces}
        made = {name: self.gateways.given.get(name) for name in sorted(self.memory.tunnels) if name in there}
        return replace(found, tunnels=made, lan=lan.standing(self._lan(observed)), translation=self._translation)

    @property
    def target(self) -> Target | None:
        """Where probes connect to: with tunnels the converter inside, unless the settings say otherwise."""
        told, enrolment = self.settings.probe.target, self.gateways.current
        return Target(enrolment.inside, CONVERT_PORT) if told is None and enrolment else told

    def _path(self, link: Link) -> Path | None:
        """By which the gateway's outside is reached from a link; None if there is none, or nobody knows where it is."""
        target = self.settings.probe.target
        found = self.gateways.found if self.gateways.current else (target.address,) if target else ()
        chosen = self.gateways.chosen(self.gateways.current) if self.gateways.current else {}
        gateway = tunnels.outside(link, found, chosen)
        if gateway is None or link.interface is None:
            return None
        [way] = (way for way in link.ways if way.version == gateway.version)
        return Path(link.interface.name, way.addresses[0], gateway, link.interface.mtu, link.wan.metered)

    def _keep_examined(self) -> None:
        """What is found out about links beside whether they work."""
        self.paths.keep({link.name: path for link in self.links if (path := self._path(link))})
        self.verdicts.keep(dict(self._ways_of_multipath()))
        silent = self.health.silent if self.settings.probe.captive else frozenset()
        self.portals.keep(
            {
                link.name: captive.Way(link.interface.name, way.addresses[0])
                for link in self.links
                for way in link.ways
                if link.interface and way.version == captive.NOBODY.version and link.name in silent
            }
        )

    def _ways_of_multipath(self) -> Iterator[tuple[str, multipath.Way]]:
        """Inside the tunnels to the converter while it answers; past them to the server of the settings.

        Without tunnels the converter is that server.
        """
        server = self.settings.probe.mptcp_target or (None if self.gateways.current else self.settings.probe.target)
        for link in self.links:
            probed_by = self.probed_by(link)
            if self.leg and self.target and probed_by and self.health.answers:
                yield link.name, multipath.Way(*probed_by, self.target, link.wan.metered)
            ways = [way for way in link.ways if server and way.version == server.address.version]
            if server and ways and link.interface:
                way = multipath.Way(link.interface.name, ways[0].addresses[0], server, link.wan.metered)
                yield multipath.outside(link.name), way

    @property
    def scouted_by(self) -> tuple[str, Address, Target] | None:
        """The interface and the address by which an earlier gateway is asked, and where; None if none is."""
        earlier = self.gateways.earlier
        setup = self.gateways.given.get(self.settings.scout_name)
        if earlier is None or setup is None or self.target is None:
            return None
        is_inside = self.target.address == earlier.inside
        return setup.name, setup.address, self.target if is_inside else Target(earlier.inside, CONVERT_PORT)

    def probed_by(self, link: Link) -> tuple[str, Address] | None:
        """The interface and the address that probes of ``link`` leave by: its tunnel's, if it has one.

        None if it is not probed.
        """
        if self.target is None or link.interface is None:
            return None
        if self.leg:
            tunnel = self.leg.of(link)
            return (tunnel.name, tunnel.address) if tunnel and link.ways else None
        ways = (way for way in link.ways if way.version == self.target.address.version)
        return next(((link.interface.name, way.addresses[0]) for way in ways), None)

    def give_up_gateway(self, now: float) -> bool:
        """Whether the gateway is silent and there is another one, to which the next look leads the tunnels."""
        if not self.health.is_silent or not self.gateways.give_up(now):
            return False
        self.health = Health(self.settings.probe)
        return True

    def return_to_gateway(self, now: float) -> bool:
        """Whether an earlier gateway answers again: the next look leads the tunnels there.

        It has just answered by one link. Until the probes say more, the others are taken to be as they were, so that
        nothing leaves outside of the tunnels meanwhile.
        """
        earlier, turn = self.gateways.earlier, self.gateways.scout.turn
        if not self.gateways.go_back(now):
            return False
        for link in self.links if earlier else ():
            if earlier and (usable := tunnels.outsides(link, self.gateways.found)):
                self.gateways.choose(earlier, link.name, usable[turn % len(usable)])
        self.health.ask_all()
        return True

    def failed(self, step: Step) -> None:
        """A step was not carried out: the next look tries again what the kernel does not show."""
        if isinstance(step, MakeTunnel):
            # Perhaps somebody else has made one of that name meanwhile.
            self.memory = replace(self.memory, tunnels=self.memory.tunnels - {step.name})
            self.gateways.given.pop(step.name, None)
        elif isinstance(step, SetTunnel):
            self.gateways.given.pop(step.setup.name, None)
        elif isinstance(step, Translate):
            self._translation = UNKNOWN

    def state(self, link: Link) -> str | None:
        """Why ``link`` is not used; None if it is."""
        if link.down is None and link.name in self.portals.found:
            return Reason.LOGIN
        return Reason.NO_ANSWER if link.name in self.health.dead else link.down

    def lost(self, event: SubflowClosed, now: float) -> None:
        """The kernel tells of the end of a subflow."""
        standing = {str(address) for address in self.endpoints}
        if event.reason in (Ended.RESET, Ended.TIMEOUT) and event.subflow.local in standing:
            self.repairs.lost(event.subflow.local, event.token, now)

    def repair(self, sessions: Mapping[int, frozenset[str]], now: float) -> Decision:
        """Make endpoints anew for which that is due; ``sessions`` are the living ones' tokens and local addresses."""
        due = self.repairs.decide(sessions, now)
        old = [self.endpoints[address] for address in self.endpoints if str(address) in due]
        new = numbers(self._taken, self._last)
        steps = tuple(
            step
            for number, endpoint in old
            for step in (RemoveEndpoint(number, endpoint), AddEndpoint(next(new), endpoint))
        )
        self._keep(dict(self.endpoints.values()), steps)
        self.memory = replace(self.memory, endpoints=self._made(self.memory.endpoints, steps))
        return Decision(steps)

    def withdrawal(self, observed: Observed) -> tuple[Step, ...]:
        """The steps that take away all that is ours; limits that somebody else has set meanwhile stay."""
        before = self.memory.limits_before if observed.limits == self.limits else None
        ours = self._with_inside(installed(observed, self.memory.endpoints, ()), observed)
        return difference(Wanted(limits=before), ours, observed.endpoints, self._last)

    def _keep(self, standing: Mapping[int, Endpoint], steps: tuple[Step, ...]) -> None:
        """Know which endpoints stand after ``steps``, and which id was given out last."""
        after = dict(standing)
        for step in steps:
            if isinstance(step, RemoveEndpoint):
                after.pop(step.number, None)
            elif isinstance(step, AddEndpoint):
                after[step.number] = step.endpoint
                self._last = step.number
            elif isinstance(step, ChangeEndpoint):
                after[step.number] = step.endpoint
        self._taken |= frozenset(after)
        for address in self.endpoints.keys() - {endpoint.address for endpoint in after.values()}:
            self.repairs.forget(str(address))
        self.endpoints = {endpoint.address: (number, endpoint) for number, endpoint in after.items()}

    @staticmethod
    def _made(made: Mapping[int, Address], steps: tuple[Step, ...]) -> dict[int, Address]:
        new = {step.number: step.endpoint.address for step in steps if isinstance(step, AddEndpoint)}
        return {**made, **new}

    def _changes(self, wall: float) -> Iterator[Change]:
        self.states = {name: state for name, state in self.states.items() if name in self.settings.wan}
        for link in self.links:
            down = self.state(link)
            known = self.states.get(link.name)
            if known is None or known.down != down:
                self.states[link.name] = State(down, wall)
                yield Change(link, down)


def _still_there(made: Mapping[int, Address], observed: Observed) -> dict[int, Address]:
    return {
        number: address
        for number, address in made.items()
        if number in observed.endpoints and observed.endpoints[number].address == address
    }
