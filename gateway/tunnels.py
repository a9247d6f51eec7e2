"""The tunnels as they are: made, brought in line with the registry, removed."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from gateway import kernel, rules
from gateway.peers import Difference, Networks, Tunnel, by_key, difference, peers, tunnels
from gateway.registry import Contents, Registry, Routers
from gateway.settings import GatewaySettings
from gateway.state import State
from gateway.tally import Tallies, counted
from tributary.settings.errors import CommandError
from tributary.wireguard import addresses, device
from tributary.wireguard.interface import Interface, PeerStatus


@dataclass(frozen=True)
class Gateway:
    """One gateway: its settings, and where it keeps what it knows."""

    settings: GatewaySettings
    state: State

    @property
    def registry(self) -> Registry:
        """Its routers' files."""
        return Registry(self.state.routers, self.settings.network, self.settings.closed)

    @property
    def networks(self) -> Networks:
        """Where its routers' addresses are."""
        return Networks(self.settings.network, self.settings.lan_prefix)

    def tunnels(self, routers: Routers) -> list[Tunnel]:
        """All tunnels of ``routers``."""
        return tunnels(routers, self.networks)

    @property
    def stands(self) -> bool:
        """Whether its interface is there."""
        return device.exists(self.settings.interface)

    @property
    def for_tunnels(self) -> Sequence[int]:
        """The IP versions that this machine passes on because of ``up``, not by itself."""
        if self.stands or self.state.was_noted_since_boot:
            return self.state.switched_on
        return [version for version in (4, *([6] if self.settings.lan_prefix else [])) if not kernel.forwards(version)]

    def rules(self, routers: Routers) -> str:
        """The nft table as it should be."""
        return rules.text(self.settings, routers, self.for_tunnels)

    def there(self) -> Sequence[PeerStatus]:
        """The peers of its interface; raises CommandError, exit 69, without one."""
        return device.peers(self.settings.interface)

    def counted(self, before: Tallies, routers: Routers, there: Sequence[PeerStatus]) -> Tallies:
        """What was counted of the routers up to now, with what was ``before``."""
        return counted(before, self.tunnels(routers), by_key(there))

    def difference(self, routers: Routers) -> Difference:
        """What its interface lacks or has too much; of one that is not there: all."""
        return difference(self.tunnels(routers), self.there() if self.stands else ())


def up(gateway: Gateway) -> list[str]:
    """Make what is not there, and set all to what the settings and the registry say; returns what was done.

    Raises CommandError; what the first call had begun is then gone again.
    """
    contents = gateway.registry.look()
    if gateway.stands:
        return _set_up(gateway, contents)
    # Or the interface went without `down`, and this machine passes packets on because of us.
    if not gateway.state.was_noted_since_boot:
        gateway.state.note_forwarding(kernel.forwards())
        gateway.state.note_forwarding6(None)
        gateway.state.note_boot()
    try:
        device.create(gateway.settings.interface)
        return _set_up(gateway, contents)
    except BaseException:
        _take_down(gateway)
        raise


def _set_up(gateway: Gateway, contents: Contents) -> list[str]:
    there, settings = gateway.there(), gateway.settings
    begins6 = settings.lan_prefix is not None and not kernel.forwards(6)
    if begins6:
        gateway.state.note_forwarding6(kernel.hearing_routers())
    # With the rules, which go by what was noted, before anything is passed on.
    done = _align(gateway, contents, there, always=True)
    inside = addresses.gateway(settings.network)
    device.set_addresses(settings.interface, [f"{inside}/{settings.network.prefixlen}"], settings.mtu)
    kernel.forward(True)
    if settings.lan_prefix:
        device.add_route(settings.interface, settings.lan_prefix)
        if begins6:
            kernel.forward6(True, gateway.state.hearing_routers or ())
    return done


def sync(gateway: Gateway) -> list[str]:
    """Have the interface's peers be those of the registry, end rotations, count; returns what was done.

    Raises CommandError, exit 69 without an interface.
    """
    there = gateway.there()
    contents = gateway.registry.look()
    routers = {**contents.routers}
    done, kept = [], []
    for name in ended_rotations(routers, there):
        routers[name] = routers[name].rotated()
        kept.append(name)
        gateway.registry.write(name, routers[name])
        done.append(f"{name}: uses its new keys, the old ones are taken away")
    return done + _align(gateway, replace(contents, routers=routers), there, rotated=kept)


def ended_rotations(routers: Routers, there: Sequence[PeerStatus]) -> list[str]:
    """The routers that have been heard by their next keys. Pure."""
    heard = {peer.public_key for peer in there if peer.handshake is not None}
    return [name for name, router in routers.items() if router.next and heard & set(router.next.keys)]


def align(gateway: Gateway, contents: Contents, rotated: Sequence[str] = ()) -> list[str]:
    """Have the interface let in these routers and nobody else; returns what was done, and that nothing is without one.

    Those ``rotated`` have other keys now, and the same LAN.
    """
    if not gateway.stands:
        return [f"there is no interface {gateway.settings.interface}: this counts from `tributary-gateway up` on"]
    return _align(gateway, contents, gateway.there(), rotated=rotated)


def _align(
    gateway: Gateway,
    contents: Contents,
    there: Sequence[PeerStatus],
    *,
    always: bool = False,
    rotated: Sequence[str] = (),
) -> list[str]:
    routers = contents.routers
    # First of all: nobody comes in before they stand.
    _load(gateway, gateway.rules(routers))
    # Not of ports that only went: while their connections are known, the rules keep out both of their ends.
    kernel.forget_misled(rules.led(gateway.settings.network, routers), gateway.settings.network)
    wanted = gateway.tunnels(routers)
    change = difference(wanted, there, [gateway.networks.lan_of(routers[name].lan_number) for name in rotated])
    if change or always:
        private, settings = gateway.state.private_key(), gateway.settings
        device.configure(settings.interface, Interface(private, peers(wanted), settings.port))
    not_ended = kernel.end_connections(change.lost)
    return [*contents.notes, *said(change), *filter(None, [not_ended]), *_count(gateway, contents, there)]


def _load(gateway: Gateway, text: str) -> None:
    """Load the rules unless they stand: their counters and limits would begin anew.

    Somebody may have flushed all rules of this machine, or changed these: the kernel shows them otherwise then.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    standing = kernel.loaded()
    if standing is not None and gateway.state.noted_rules == f"{digest} {standing}":
        return
    kernel.load(text)
    gateway.state.note_rules(f"{digest} {kernel.loaded()}")


def _count(gateway: Gateway, contents: Contents, there: Sequence[PeerStatus]) -> list[str]:
    """Keep what was counted of routers; says why it could not be: nobody is let in or kept in for that."""
    notes: list[str] = []
    try:
        before = gateway.state.tallies(notes.append)
        waiting = {name: tally for name, tally in before.items() if name in contents.faults}
        gateway.state.keep({**waiting, **gateway.counted(before, contents.routers, there)})
    except CommandError as failure:
        notes.append(f"nothing was counted: {failure}")
    return notes


def said(change: Difference) -> list[str]:
    """A change in words. Pure."""
    return [*(f"{name}: let in" for name in change.routers), *(f"{block}: shut out" for block in change.lost)]


def down(gateway: Gateway) -> None:
    """Remove the interface with all tunnels, the rules, and what was changed; raises CommandError, exit 69, 71."""
    if gateway.stands:
        there = gateway.there()  # or it is no tunnel's interface, and not ours to remove
        # A file that nobody can read is no reason to leave tunnels open.
        with suppress(CommandError):
            _count(gateway, gateway.registry.look(), there)
    _take_down(gateway)


def _take_down(gateway: Gateway) -> None:
    with ExitStack() as every:  # whatever becomes of the others, the last one first
        every.callback(gateway.state.forget_boot)
        every.callback(kernel.unload)
        if gateway.state.forwarding_was_off:
            every.callback(gateway.state.note_forwarding, True)
            every.callback(kernel.forward, False)
        if (hearing := gateway.state.hearing_routers) is not None:
            every.callback(gateway.state.note_forwarding6, None)
            every.callback(kernel.forward6, False, hearing)
        every.callback(device.remove, gateway.settings.interface)
