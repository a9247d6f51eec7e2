"""Creates the tunnels, reconciles them with the registry, removes them."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from gateway import forwarding, rules, tracking
from gateway.counters import Totals, counted
from gateway.peers import Difference, Tunnel, by_key, difference, peers, remaining, tunnels
from gateway.registry import Contents, Registry, Routers, lost_keys
from gateway.settings import GatewaySettings
from gateway.state import UNCHANGED, State
from tributary.kernel import connections, nft, wireguard
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard import addresses
from tributary.wireguard.interface import Interface, PeerStatus


@dataclass(frozen=True)
class Gateway:
    """One gateway: its settings and its state."""

    settings: GatewaySettings
    state: State

    @property
    def registry(self) -> Registry:
        return Registry(self.state.routers, self.settings.network, self.settings.closed)

    def tunnels(self, routers: Routers) -> list[Tunnel]:
        return tunnels(routers, self.settings.network, self.settings.lan_prefix)

    @property
    def inside(self) -> str:
        """Its address inside, in the form of ip(8)."""
        return f"{addresses.gateway(self.settings.network)}/{self.settings.network.prefixlen}"

    @property
    def stands(self) -> bool:
        return wireguard.exists(self.settings.interface)

    @property
    def as_created(self) -> "Gateway":
        """With the interface that ``up`` has created, whatever the settings call it by now."""
        name = self.state.changes.interface or self.settings.interface
        return replace(self, settings=self.settings.model_copy(update={"interface": name}))

    @property
    def for_tunnels(self) -> Sequence[int]:
        """The IP versions that this machine forwards only because of ``up``."""
        changes = self.state.changes
        if self.stands or changes.is_noted:
            return changes.switched_on
        needed = (4, 6) if self.settings.lan_prefix else (4,)
        return [version for version in needed if not forwarding.forwards(version)]

    def rules(self, routers: Routers) -> str:
        return rules.text(self.settings, routers, self.for_tunnels)

    def there(self) -> Sequence[PeerStatus]:
        """The peers of its interface; raises CommandError, exit 69, without one."""
        return wireguard.peers(self.settings.interface)

    def counted(self, before: Totals, routers: Routers, there: Sequence[PeerStatus]) -> Totals:
        """The routers' totals now, from those ``before``."""
        return counted(before, self.tunnels(routers), by_key(there))

    def difference(self, routers: Routers) -> Difference:
        """What its interface lacks, or should not have; without an interface everything."""
        return difference(self.tunnels(routers), self.there() if self.stands else ())


def up(gateway: Gateway) -> list[str]:
    """Create what is missing, and reconcile everything with settings and registry; returns what was done.

    Raises CommandError, exit 75 for another program's interface; what the first call has created is removed then.
    """
    damaged = gateway.state.set_damaged_aside()
    if gateway.stands:
        gateway.there()  # fails for an interface without tunnels
        if not (damaged or gateway.state.changes.is_noted):
            name = gateway.settings.interface
            fix = "set `interface` to another name, or remove that one"
            raise CommandError(Exit.IN_USE, f"{name}: there is such an interface, which is somebody else's: {fix}")
        return damaged + _set_up(gateway)
    before = changes = gateway.state.changes
    # Else the interface was removed without `down`, and this machine forwards packets because of us.
    if not changes.is_noted:
        changes = replace(UNCHANGED, is_noted=True, ipv4_was_off=not forwarding.forwards())
    changes = replace(changes, interface=gateway.settings.interface)
    if changes != before:
        gateway.state.note(changes)
    try:
        wireguard.create(gateway.settings.interface)
        return damaged + _set_up(gateway)
    except BaseException:
        _take_down(gateway)
        raise


def keep_up(gateway: Gateway) -> list[str]:
    """Sync, after which all that ``up`` has set up is there again, whoever has taken it away; returns what was done.

    Raises CommandError, exit 69 without an interface.
    """
    lacking = list(_lacking(gateway)) if gateway.stands else []
    if not lacking:
        return sync(gateway)
    gateway.there()  # fails for an interface without tunnels, which is somebody else's
    # Before anything is noted, which would take the place of a damaged file.
    return [*lacking, *gateway.state.set_damaged_aside(), *_set_up(gateway)]


def _lacking(gateway: Gateway) -> Iterator[str]:
    """What another program has taken away, or the settings have otherwise by now, and peers and rules do not show."""
    settings = gateway.settings
    name, prefix, mtu, port = settings.interface, settings.lan_prefix, settings.mtu, settings.port
    if not wireguard.is_set_up(name, [gateway.inside], mtu, port):
        yield f"{name}: was down or without {gateway.inside}, mtu {mtu} or port {port}: set up again"
    elif prefix and not wireguard.has_route(name, prefix):
        yield f"{name}: {prefix} was not routed there: it is again"
    for version in (4, 6) if prefix else (4,):
        if not forwarding.forwards(version):
            yield f"IPv{version} was not forwarded any more: it is again, for tunnels and bridges alone"


def _set_up(gateway: Gateway) -> list[str]:
    settings, changes = gateway.settings, gateway.state.changes
    if not (changes.ipv4_was_off or forwarding.forwards()):
        # Whoever needed it has switched it off: from now on it is on because of us alone.
        changes = replace(changes, is_noted=True, ipv4_was_off=True)
        gateway.state.note(changes)
    begins6 = settings.lan_prefix is not None and not forwarding.forwards(6)
    if begins6:
        hearing = {*(changes.hearing or ()), *forwarding.ra_accepting_interfaces()}
        changes = replace(changes, hearing=sorted(hearing))
        gateway.state.note(changes)
    # With the rules, which depend on what was noted, before anything is forwarded.
    done = sync(gateway, always=True)
    wireguard.set_addresses(settings.interface, [gateway.inside], settings.mtu)
    forwarding.forward(True)
    if settings.lan_prefix:
        wireguard.add_route(settings.interface, settings.lan_prefix)
        if begins6:
            forwarding.forward6(True, changes.hearing or ())
    return done


def sync(gateway: Gateway, *, always: bool = False) -> list[str]:
    """Reconcile the interface with the registry, end rotations, count, have the kernel track enough; returns what was
    done.

    Raises CommandError, exit 69 without an interface.
    """
    there, contents = gateway.there(), gateway.registry.look()
    routers = dict(contents.routers)
    rotated, done = [], gateway.state.set_damaged_aside()
    for name in ended_rotations(routers, there):
        renewed = routers[name].rotated()
        try:
            gateway.registry.write(name, renewed)
        except CommandError as failure:
            done.append(f"{name}: uses its new keys; the old ones stay for now: {failure}")
        else:
            done.append(f"{name}: uses its new keys; the old ones are removed")
            done += gateway.registry.revoked.add({name: lost_keys(routers[name], renewed)})
            routers[name] = renewed
            rotated.append(name)
    done += reconcile(gateway, replace(contents, routers=routers), rotated, always=always)
    return done + _make_room(gateway)


def _make_room(gateway: Gateway) -> list[str]:
    """Have the kernel track what the rules, which are loaded, let routers have; returns what it refused, once."""
    found, noted = tracking.changes(gateway.settings.connections, rules.most_begun), gateway.state.changes
    needed = {name: value for name, (_, value) in found.items()}
    # Somebody may have set another value since then: that is the one to put back.
    before = {name: now for name, (now, _) in found.items() if now != noted.tracked.get(name)}
    changes = replace(noted, tracking={**noted.tracking, **before}, tracked={**noted.tracked, **needed})
    if changes != noted:
        gateway.state.note(changes)
    refused = tracking.put(needed)
    return refused if found.keys() - noted.tracking.keys() else []


def ended_rotations(routers: Routers, there: Sequence[PeerStatus]) -> list[str]:
    """The routers that have used their next keys. Pure."""
    heard = {peer.public_key for peer in there if peer.handshake is not None}
    return [name for name, router in routers.items() if router.next and heard & set(router.next.keys)]


def reconcile(gateway: Gateway, contents: Contents, rotated: Sequence[str] = (), *, always: bool = False) -> list[str]:
    """Reconcile the interface with these routers; returns what was done, or that there is no interface.

    Those ``rotated`` have other keys, and the same LAN. ``always``: also if no tunnel has to change.
    """
    if not gateway.stands:
        return [f"there is no interface {gateway.settings.interface}: this counts from `tributary-gateway up` on"]
    there = gateway.there()
    wanted = gateway.tunnels(contents.routers)
    lans = [addresses.prefix_of(gateway.settings.lan_prefix, contents.routers[name].lan_number) for name in rotated]
    change = difference(wanted, there, lans)
    if change.unexpected:
        # Before all that may fail: a revoked router must not stay because a disk is full.
        _configure(gateway, remaining(wanted, there))
    try:
        notes = _apply(gateway, contents.routers, wanted if change.missing or always else None)
    finally:
        not_ended = connections.end_connections(change.released)
    notes = [*contents.notes, *describe(change), *notes, *filter(None, [not_ended])]
    return [*notes, *_count(gateway, contents, there)]


def _apply(gateway: Gateway, routers: Routers, wanted: Sequence[Tunnel] | None) -> list[str]:
    """Have the rules for ``routers``, then the tunnels that are ``wanted``, if they change; returns what failed."""
    # First, so that no packet is accepted without rules.
    notes = _load(gateway, gateway.rules(routers))
    # Not for ports that were only removed: while their connections are tracked, the rules drop both directions.
    connections.flush_stale_dnat(rules.forward_targets(gateway.settings.network, routers), gateway.settings.network)
    if wanted is not None:
        _configure(gateway, wanted)
    return notes


def _configure(gateway: Gateway, wanted: Sequence[Tunnel]) -> None:
    private, settings = gateway.state.private_key(), gateway.settings
    wireguard.configure(settings.interface, Interface(private, peers(wanted), settings.port))


def _load(gateway: Gateway, text: str) -> list[str]:
    """Load the rules unless they are loaded; what they count goes on. Returns why they were not noted, if that failed.

    Another program may have flushed or changed them: then the kernel lists them differently.
    """
    loaded = _listed()
    if loaded and gateway.state.changes.rules == _digests(text, loaded):
        return []
    nft.execute(rules.keeping(text, loaded) if loaded else text)
    try:
        gateway.state.note(replace(gateway.state.changes, rules=_digests(text, _listed())))
    except CommandError as failure:
        return [f"the rules will be loaded again: {failure}"]
    return []


def _digests(*texts: str) -> str:
    return " ".join(hashlib.sha256(text.encode()).hexdigest() for text in texts)


def _listed() -> str:
    """The loaded rules, without what packets have put into sets; empty if there are none."""
    return rules.without_seen(nft.listed(f"inet {rules.TABLE}") or "")


def _count(gateway: Gateway, contents: Contents, there: Sequence[PeerStatus]) -> list[str]:
    """Save the routers' totals; returns why that failed: a failure here must not stop a reconcile."""
    notes: list[str] = []
    try:
        before = gateway.state.totals(notes.append)
        waiting = {name: total for name, total in before.items() if name in contents.faults}
        gateway.state.save_totals({**waiting, **gateway.counted(before, contents.routers, there)})
    except CommandError as failure:
        notes.append(f"nothing was counted: {failure}")
    return notes


def describe(change: Difference) -> list[str]:
    """Describes a change for the operator. Pure."""
    return [*(f"{name}: tunnels added" for name in change.routers), *(f"{block}: removed" for block in change.released)]


def down(gateway: Gateway) -> list[str]:
    """Remove the interface with all tunnels, the rules, and what was changed; returns what is not known any more.

    Raises CommandError, exit 69, 71.
    """
    damaged = gateway.state.set_damaged_aside()
    gateway = gateway.as_created
    if gateway.stands:
        there = gateway.there()  # fails for an interface without tunnels, which must not be removed
        # An unreadable file is no reason to leave tunnels up.
        with suppress(CommandError):
            _count(gateway, gateway.registry.look(), there)
    _take_down(gateway)
    return damaged


def _take_down(gateway: Gateway) -> None:
    changes = gateway.state.changes
    with ExitStack() as every:  # each runs even if others fail, the last one first
        every.callback(gateway.state.forget)
        every.callback(nft.execute, nft.delete(f"inet {rules.TABLE}"))
        if changes.ipv4_was_off:
            every.callback(forwarding.forward, False)
        if changes.hearing is not None:
            every.callback(forwarding.forward6, False, changes.hearing)
        every.callback(tracking.put_back, changes.tracking, changes.tracked)
        every.callback(wireguard.remove, gateway.settings.interface)
