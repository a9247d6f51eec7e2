"""Decides what to change: from the observed kernel state to operations. Pure: the caller passes the clock."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from router.identifiers import ENDPOINT_IDS, MAIN, is_owned_route
from router.lan import ipv6
from router.lan.ipv6 import Lan
from router.lan.npt import UNKNOWN, PrefixTranslation
from router.links import policy
from router.links.endpoint_refresh import EndpointRefresher
from router.links.health import Health
from router.links.model import Link, Reason, links
from router.links.overflow import Candidates, Overflow, Rates
from router.links.policy import Now
from router.links.quickest import quickest
from router.links.usage import Reading, Usage
from router.probes import mptcp, portal
from router.probes.mtu import Path, Paths
from router.settings import RouterSettings
from router.state.desired import DesiredState, OwnedState, desired_state, owned_state, unmanaged_endpoints
from router.state.owned import OwnershipRecord
from router.state.plan import Add, Change, NumberedEndpoint, Operation, Remove, TunnelInterface, diff, free_ids
from router.tunnels import model as tunnels
from router.tunnels.gateways import Gateways
from router.tunnels.model import GatewayTunnels, TunnelConfig
from tributary.kernel.state import Address, Endpoint, Interface, KernelState, Limits, Octets, OwnAddress
from tributary.mptcp.events import Ended, SubflowClosed
from tributary.settings.hosts import CONVERT_PORT, Target
from tributary.settings.links import Use
from tributary.wireguard.addresses import DEFAULT_SLOT


@dataclass(frozen=True)
class Decision:
    """The operations to apply, and the links that came up or went down."""

    operations: tuple[Operation, ...]
    changes: tuple[Link, ...]


class Reconciler:
    """What is known of the links, and what this daemon owns in the kernel."""

    def __init__(self, settings: RouterSettings, memory: OwnershipRecord, usage: Usage | None = None) -> None:
        self.settings = settings
        self.record = memory
        self.usage = usage or Usage()
        self.health = Health(settings.probe)
        self.gateways = Gateways(settings, memory.gateway)
        self.paths = Paths()
        self.verdicts = mptcp.Verdicts()
        self.portals = portal.Portals()
        self.gateway_tunnels: GatewayTunnels | None = None
        self.overflow = Overflow()
        self.refresher = EndpointRefresher()
        self.links: tuple[Link, ...] = ()
        self.beginning: str | None = None
        """The link that begins sessions through the tunnels; None without tunnels."""
        self.endpoints: dict[Address, tuple[int, Endpoint]] = {}
        """The owned endpoints after the last operations: id and endpoint by address."""
        self.unmanaged: dict[int, Endpoint] = {}
        self.names_taken: frozenset[str] = frozenset()
        """Tunnels whose names other programs' interfaces have: these are omitted."""
        self._presumed = memory.gateway
        """The gateway before a restart: it counts as answering until its probes say otherwise."""
        self._gateway_answers = False
        self._was_synchronized = False
        self._translation = UNKNOWN if memory.has_translation else None
        self._prefixes = ipv6.Prefixes()
        self._ids_in_use: frozenset[int] = frozenset()
        self._failed_rounds: dict[str, int] = {}
        """How often links have tried another address of the gateway since the last answer."""
        self._last_id = max(memory.endpoints, default=ENDPOINT_IDS.start - 1)

    def change_settings(self, settings: RouterSettings) -> None:
        """Takes effect at the next reconciliation. A gateway that stays keeps its state; its links are probed again."""
        before = self.target, self.gateways.current
        self.settings = settings
        self.gateways.change_settings(settings)
        if (self.target, self.gateways.current) == before:
            self.health.change_probe(settings.probe)
        else:
            self.health, self._presumed = Health(settings.probe), None
        self.forget_translation()

    @property
    def has_translation(self) -> bool:
        """Whether the nft table should exist, and be as it was made."""
        return self._translation not in (None, UNKNOWN)

    def forget_translation(self) -> None:
        """Another program may have removed or changed the table: it is made again, if there shall be one."""
        self._translation = UNKNOWN if self._translation else None

    @property
    def limits(self) -> Limits:
        return Limits(self.settings.mptcp.subflows, self.settings.mptcp.accepted_addresses)

    def reconcile(self, observed: KernelState, wall: float, now: float, *, is_synchronized: bool = True) -> Decision:
        """Returns what to change; ``wall`` is in seconds since 1970, and may be wrong until the clock has been
        synchronized once; ``now`` is by the monotonic clock.

        The caller saves ``record`` before it applies the operations.
        """
        # The kernel's clock counts as unsynchronized again after hours without a link, but goes on.
        self._was_synchronized |= is_synchronized
        day = Now(datetime.fromtimestamp(wall, self.settings.time_zone), self._was_synchronized)
        self.usage.set_policies(self.settings.wan, day.local.date(), is_synchronized=day.is_synchronized)
        before = {link.name: link for link in self.links}
        self.links = policy.allowed(links(self.settings, observed), self.health.down, self.usage, day)
        names = {*self.settings.tunnel_names, self.settings.failback_name}
        self.names_taken = frozenset(
            each.name for each in observed.interfaces if each.name in names - self.record.tunnels
        )
        self._gateway_answers = self._does_gateway_answer(observed)
        self.gateway_tunnels = self._gateway_tunnels(observed)
        probed = [link for link in self.links if self.probe_path(link)]
        self.health.set_links([link.name for link in probed], [link.name for link in probed if link.wan.metered])
        self.overflow.set_candidates(self._candidates())
        self._try_silent_tunnels()
        self._update_checks()
        self.links = tuple(self._judged(link, before.get(link.name), now) for link in self.links)
        self.beginning = self._beginning()
        self.unmanaged = unmanaged_endpoints(observed, self.record.endpoints)
        desired = self._desired(observed, now)
        owned = self._owned(observed, desired.endpoints)
        operations = diff(desired, owned, observed.endpoints, self._last_id)
        self._ids_in_use = frozenset(observed.endpoints)
        self._translation = desired.translation
        self.record = OwnershipRecord(
            {
                number: endpoint.address
                for number, endpoint in owned.endpoints.items()
                # Not those that others made and that are in the way.
                if self.record.endpoints.get(number) == endpoint.address
            },
            self.record.limits_before or observed.limits,
            frozenset(owned.tunnels),
            desired.translation is not None,
            self.gateways.address,
            frozenset((*owned.lan, *desired.lan)),
        )
        self._note(owned.endpoints, operations)
        known = {name: link.reason for name, link in before.items()}
        changes = tuple(link for link in self.links if link.reason != known.get(link.name, ""))
        return Decision(operations, changes)

    def _judged(self, link: Link, before: Link | None, now: float) -> Link:
        """The link with what is known of it besides what the kernel says; ``before`` is the same one's last state."""
        is_taken_out = link.name in self.health.down
        reason = link.down
        if link.down is None and link.name in self.portals.results:
            reason = Reason.CAPTIVE_PORTAL
        elif is_taken_out:
            reason = Reason.NO_ANSWER
        return replace(
            link,
            is_taken_out=is_taken_out,
            is_suspect=link.name in self.health.suspect,
            is_standby=link.name in self.overflow.standby,
            reason=reason,
            since=before.since if before and before.reason == reason else now,
        )

    def _beginning(self) -> str | None:
        used = [link for link in self.links if link.works and not link.is_standby]
        inside = [link for link in used if self.gateway_tunnels and self.gateway_tunnels.of(link)]
        recent = {name: record.recent for name, record in self.health.records.items()}
        return quickest(inside, recent, self.beginning)

    def forget_configuration(self, tunnel: str) -> None:
        """The next reconciliation applies it again: no snapshot shows other programs' changes of keys, peer or mark."""
        self.gateways.applied.pop(tunnel, None)

    def _try_silent_tunnels(self) -> None:
        """A link on which the gateway is silent tries the gateway's next address: its network may drop UDP of one IP
        version. From the second time on its tunnel is configured again: at the first one others wait for their routes.

        It does so after ``probe.failures`` failures, then after twice as many, and so on.
        """
        for link in self.links if self.gateways.current else ():
            record = self.health.records.get(link.name)
            rounds = (record.failures // self.settings.probe.failures).bit_length() if record else 0
            if rounds > self._failed_rounds.get(link.name, 0):
                self.gateways.rotate(link)
                if rounds > 1:
                    self.forget_configuration(self.settings.tunnels.name(link.slot + 1))
            self._failed_rounds[link.name] = rounds

    def _gateway_tunnels(self, observed: KernelState) -> GatewayTunnels | None:
        enrolment = self.gateways.current
        if enrolment is None:
            return None
        others = tuple(each for each in observed.interfaces if each.name not in self.names_taken)
        return tunnels.gateway_tunnels(
            self.settings, enrolment, replace(observed, interfaces=others), self._gateway_answers
        )

    def _does_gateway_answer(self, observed: KernelState) -> bool:
        """After a restart as before it, until a probe has been answered, or too many have failed on every link."""
        if self.health.answers or self.health.is_silent:
            self._presumed = None
        is_presumed = self._presumed is not None and self._presumed == self.gateways.address
        return self.health.answers or (is_presumed and self._leads_inside(observed))

    def _leads_inside(self, observed: KernelState) -> bool:
        """Whether there is an owned default route into the default tunnel."""
        default = self.settings.tunnels.name(DEFAULT_SLOT)
        index = next((each.index for each in observed.interfaces if each.name == default), None)
        return any(
            is_owned_route(route) and route.table == MAIN and route.is_default and route.interface == index
            for route in observed.routes
        )

    def _desired(self, observed: KernelState, now: float) -> DesiredState:
        desired = desired_state(
            self.links, self.unmanaged, self.limits, self.gateway_tunnels, self.beginning, bypass=self.settings.bypass
        )
        inside = self._lan(observed, [link for link in self.links if link.works])
        inside = replace(inside, remembered=self._prefixes.updated(inside, now))
        desired = replace(
            desired,
            routes=(*desired.routes, *ipv6.routes(inside)),
            rules=(*desired.rules, *ipv6.rules(inside)),
            lan=ipv6.desired_addresses(inside),
            translation=ipv6.translation(inside),
        )
        gateways = self.gateways
        if gateways.current is None:
            return desired
        names = self.settings.tunnel_names
        made = tunnels.tunnel_configs(self.settings, gateways.current, self.links, gateways.outside, self.paths.results)
        if gateways.earlier:
            names = (*names, self.settings.failback_name)
            probed = gateways.outside_of_earlier
            made = chain(made, tunnels.failback_tunnel(self.settings, gateways.earlier, self.links, probed))
        return replace(
            desired,
            tunnels=tuple(name for name in names if name not in self.names_taken),
            tunnel_configs=tuple(config for config in made if config.name not in self.names_taken),
        )

    def _lan(self, observed: KernelState, working: Sequence[Link] = ()) -> Lan:
        answering = self.gateways.current if self._gateway_answers else None
        return Lan(self.settings, observed, working, answering)

    def _candidates(self) -> Candidates:
        """Links that are always used, and those for when these are full; without a primary one one of the latter."""
        used = [link for link in self.links if link.next_hops and link.name not in self.health.down]
        spare = tuple(link.name for link in used if link.wan.use is Use.OVERFLOW)
        front = tuple(link.name for link in used if link.wan.use is Use.PRIMARY) or spare[:1]
        return Candidates(front, tuple(name for name in spare if name not in front))

    @property
    def counted_interfaces(self) -> dict[str, str]:
        """The interfaces whose bytes matter now, by the names of their links."""
        names = self.overflow.counted | self.usage.capped
        return {link.name: link.interface.name for link in self.links if link.interface and link.name in names}

    def count(self, counts: Mapping[str, Octets], rates: Mapping[str, Rates], now: float) -> bool:
        """Takes the counters and the capacities of links; returns whether to reconcile now."""
        readings = {
            link.name: Reading(f"{self.usage.boot}/{link.interface.index}", counts[link.name].total)
            for link in self.links
            if link.interface and link.name in counts
        }
        before = {name: self.usage.level(name) for name in self.usage.capped}
        self.usage.read(readings)
        is_other = any(self.usage.level(name) != level for name, level in before.items())
        return self.overflow.count(counts, rates, now) or is_other

    def _owned(self, observed: KernelState, desired: Collection[Endpoint] = ()) -> OwnedState:
        """What exists of what is owned, with the tunnels' last configuration."""
        own = (interface for interface in observed.interfaces if interface.name in self.record.tunnels)
        return replace(
            owned_state(observed, self.record.endpoints, desired),
            tunnels={each.name: self._applied(each, observed) for each in sorted(own, key=lambda each: each.name)},
            lan=tuple(dict.fromkeys((*ipv6.owned_addresses(self._lan(observed)), *self._recorded(observed)))),
            translation=self._translation,
        )

    def _applied(self, tunnel: Interface, observed: KernelState) -> TunnelConfig | None:
        """Its last configuration; None if that is unknown, or another program has changed a part of it."""
        config = self.gateways.applied.get(tunnel.name)
        there = {each.address for each in observed.addresses if each.interface == tunnel.index}
        if config is None or not tunnel.is_up or tunnel.mtu != config.mtu:
            return None
        return config if there.issuperset(config.addresses) else None

    def _recorded(self, observed: KernelState) -> list[OwnAddress]:
        """The recorded addresses that exist, also by earlier settings."""
        there = {(each.interface, each.address) for each in observed.addresses}
        return sorted((each for each in self.record.lan if (each.interface, each.address.ip) in there), key=str)

    @property
    def target(self) -> Target | None:
        """Where probes connect to: with tunnels the converter inside, unless the settings name another target."""
        configured, enrolment = self.settings.probe.target, self.gateways.current
        return Target(enrolment.inside, CONVERT_PORT) if configured is None and enrolment else configured

    def _path(self, link: Link) -> Path | None:
        """The path from a link to the gateway's public address; None if there is none, or the address is unknown."""
        target = self.settings.probe.target
        gateway = self.gateways.outside(link) if self.gateways.current else target.address if target else None
        path = link.path(gateway.version) if gateway else None
        if gateway is None or path is None or link.interface is None:
            return None
        return Path(*path, gateway, link.interface.mtu, link.wan.metered)

    def _update_checks(self) -> None:
        """Tells the MTU, MPTCP and login page checks which paths there are."""
        self.paths.set_paths({link.name: path for link in self.links if (path := self._path(link))})
        self.verdicts.set_paths(dict(self._mptcp_paths()))
        silent = self.health.silent if self.settings.probe.captive else frozenset()
        asked = {link.name: link.path(portal.NOBODY.version) for link in self.links if link.name in silent}
        self.portals.set_paths({name: path for name, path in asked.items() if path})

    def _mptcp_paths(self) -> Iterator[tuple[str, mptcp.MptcpPath]]:
        """Inside the tunnels to the converter while it answers; outside of them to the server in the settings.

        Without tunnels the converter is that server.
        """
        server = self.settings.probe.mptcp_target or (None if self.gateways.current else self.settings.probe.target)
        for link in self.links:
            probed_by = self.probe_path(link)
            if self.gateway_tunnels and self.target and probed_by and self.health.answers:
                yield link.name, mptcp.MptcpPath(*probed_by, self.target, link.wan.metered)
            if server and (path := link.path(server.address.version)):
                yield mptcp.outside(link.name), mptcp.MptcpPath(*path, server, link.wan.metered)

    @property
    def failback_path(self) -> tuple[str, Address, Target] | None:
        """Interface, source address and target of probes to an earlier gateway; None if none is probed."""
        earlier = self.gateways.earlier
        config = self.gateways.applied.get(self.settings.failback_name)
        if earlier is None or config is None or self.target is None:
            return None
        is_inside = self.target.address == earlier.inside
        return config.name, config.addresses[0], self.target if is_inside else Target(earlier.inside, CONVERT_PORT)

    def probe_path(self, link: Link) -> tuple[str, Address] | None:
        """Interface and source address of a link's probes: its tunnel's, if it has one; None without probes."""
        if self.target is None:
            return None
        if self.gateway_tunnels:
            tunnel = self.gateway_tunnels.of(link)
            return (tunnel.name, tunnel.address) if tunnel and link.next_hops else None
        return link.path(self.target.address.version)

    def fail_over(self, now: float) -> bool:
        """Whether the gateway is silent and another one is there: the next reconciliation moves the tunnels to that."""
        if not self.health.is_silent or not self.gateways.fail_over(now):
            return False
        self.health, self._presumed = Health(self.settings.probe), None
        return True

    def fail_back(self, now: float) -> bool:
        """Returns whether an earlier gateway is stable again: the next reconciliation moves the tunnels to it.

        It has answered by one link only. Until its probes end, the other links keep their state, so that nothing leaves
        outside of the tunnels meanwhile.
        """
        if not self.gateways.fail_back(now, self.links):
            return False
        self.health.forget_times()
        return True

    def on_failure(self, operation: Operation) -> None:
        """An operation failed. The next reconciliation retries what the kernel does not show."""
        match operation:
            case Add(TunnelInterface(name)):
                # Another program may have created an interface of that name meanwhile.
                self.record = replace(self.record, tunnels=self.record.tunnels - {name})
                self.gateways.applied.pop(name, None)
            case Add(OwnAddress() as of_lan):
                self.record = replace(self.record, lan=self.record.lan - {of_lan})
            case Change(TunnelConfig(name)):
                self.gateways.applied.pop(name, None)
            case Change(PrefixTranslation()) | Remove(PrefixTranslation()):
                self._translation = UNKNOWN

    def on_subflow_closed(self, event: SubflowClosed, now: float) -> None:
        existing = {str(address) for address in self.endpoints}
        if event.reason in (Ended.RESET, Ended.TIMEOUT) and event.subflow.local in existing:
            self.refresher.on_subflow_lost(event.subflow.local, event.token, now)

    def refresh_endpoints(self, sessions: Mapping[int, frozenset[str]], now: float) -> tuple[Operation, ...]:
        """Recreates the endpoints that are due; ``sessions`` are the live tokens with their local addresses."""
        due = self.refresher.due(sessions, now)
        old = [self.endpoints[address] for address in self.endpoints if str(address) in due]
        new = free_ids(self._ids_in_use, self._last_id)
        operations = tuple(
            operation
            for number, endpoint in old
            for operation in (Remove(NumberedEndpoint(number, endpoint)), Add(NumberedEndpoint(next(new), endpoint)))
        )
        self._note(dict(self.endpoints.values()), operations)
        return operations

    def removal(self, observed: KernelState) -> tuple[Operation, ...]:
        """The operations that remove all that is owned. Limits that another program has set meanwhile stay."""
        before = self.record.limits_before if observed.limits == self.limits else None
        return diff(DesiredState(limits=before), self._owned(observed), observed.endpoints, self._last_id)

    def _note(self, existing: Mapping[int, Endpoint], operations: tuple[Operation, ...]) -> None:
        """Notes what is owned after ``operations``, of which ``existing`` are the endpoints before.

        The record keeps what they remove, too: that may fail.
        """
        after, made, own = dict(existing), dict(self.record.endpoints), set(self.record.tunnels)
        for operation in operations:
            match operation:
                case Remove(NumberedEndpoint(number, _)):
                    after.pop(number, None)
                case Add(NumberedEndpoint(number, endpoint)):
                    after[number], made[number], self._last_id = endpoint, endpoint.address, number
                case Change(NumberedEndpoint(number, endpoint)):
                    after[number] = endpoint
                case Add(TunnelInterface(name)):
                    own.add(name)
                case Change(TunnelConfig(name) as config):
                    self.gateways.applied[name] = config
        self.record = replace(self.record, endpoints=made, tunnels=frozenset(own))
        self._ids_in_use |= frozenset(after)
        for address in self.endpoints.keys() - {endpoint.address for endpoint in after.values()}:
            self.refresher.remove(str(address))
        self.endpoints = {endpoint.address: (number, endpoint) for number, endpoint in after.items()}
