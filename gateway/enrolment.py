"""Enrols routers, gives them new keys and ports, revokes them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gateway.forwards import conflicts, with_added, without
from gateway.registry import Contents, Identity, Revoked, Router, free_number, lost_keys, name_of
from gateway.tunnels import Gateway, ended_rotations, reconcile
from tributary.daemons.state_file import Tell
from tributary.kernel import connections
from tributary.settings.errors import CommandError, Exit
from tributary.settings.ports import Ports
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Endpoint, Enrolment

_OFTEN = 50
"""Routers, for which wg(8) makes 450 keys, from one line about how far it is to the next."""


@dataclass(frozen=True)
class EnrolResult:
    """Routers' enrolments by their names, and notes for the operator."""

    enrolments: Mapping[str, Enrolment]
    notes: Sequence[str]

    @property
    def enrolment(self) -> Enrolment:
        """The only one."""
        (made,) = self.enrolments.values()
        return made


def enrol(gateway: Gateway, names: Sequence[str], now: datetime, tell: Tell = lambda _: None) -> EnrolResult:
    """Enrol new routers, also in the place of files with revoked keys: all, or none; ``tell`` gets how far it is.

    Raises CommandError, exit 64 for a wrong name, 75 for one that is taken.
    """
    contents = gateway.registry.look()
    made: dict[str, tuple[Router, str]] = {}
    for name, number in new_numbers(gateway, contents, names).items():
        secret, identity = _identity(number, now)
        made[name] = Router(**identity.model_dump()), secret
        if len(made) % _OFTEN == 0:
            tell(f"keys for {len(made)} of {len(names)} routers are made")
    return _admit(gateway, contents.without(*names), made)


def new_numbers(gateway: Gateway, contents: Contents, names: Sequence[str]) -> dict[str, int]:
    """The numbers that new routers of these names get.

    Raises CommandError, exit 64 for a wrong name, 69 if the network is full, 75 for a name that is taken.
    """
    for name in names:
        _refuse_taken(contents, name_of(name))
    numbers: dict[str, int] = {}
    for name in dict.fromkeys(names):
        given = {*contents.reserved, *numbers.values()}
        numbers[name] = free_number(contents.routers, gateway.settings.network, given)
    return numbers


def rotate(gateway: Gateway, name: str, now: datetime, *, at_once: bool) -> EnrolResult:
    """Give a router new keys and tunnels' addresses; its old ones are valid until the new are used, or are removed
    ``at_once``.

    Its LAN keeps its IPv6 prefix.

    Raises CommandError, exit 64 if there is no such router, 69 if there is no number for it.
    """
    contents = gateway.registry.look()
    router = get_router(contents, name)
    number = next_number(gateway, contents, name, at_once=at_once)
    if router.next and gateway.stands and ended_rotations({name: router}, gateway.there()):
        # Its old ones are those in use: no `sync` has ended the rotation before yet.
        router = router.rotated()
    secret, fresh = _identity(number, now)
    identity = fresh.model_copy(update={"lan": router.lan_number})
    next_alone = Router(**identity.model_dump(), forward=router.forward)
    renewed = next_alone if at_once else router.model_copy(update={"next": identity})
    return _admit(gateway, contents, {name: (renewed, secret)})


def revoke(gateway: Gateway, names: Sequence[str]) -> Sequence[str]:
    """Revoke routers at once, and for good; returns what was done. Raises CommandError, exit 64 if one is not there:
    then none is revoked.

    Whatever is in their files, or in those of others.
    """
    contents = gateway.registry.look()
    for name in names:
        if name not in contents.faults:
            get_router(contents, name)
    others = contents.without(*names)
    notes = gateway.registry.revoke(names, others.routers)
    return [*reconcile(gateway, others), *notes]


def forward(gateway: Gateway, name: str, ports: Sequence[Ports], *, remove: bool) -> Sequence[str]:
    """Have ``ports`` lead to a router, or no longer; returns what was done.

    Raises CommandError: exit 64 if there is no such router, or a port that is to go is not there, 75 if one is taken.
    """
    contents = with_ports(gateway, name, ports, remove=remove)
    notes = reconcile(gateway, contents)
    gateway.registry.write(name, contents.routers[name])
    return notes


def with_ports(gateway: Gateway, name: str, ports: Sequence[Ports], *, remove: bool) -> Contents:
    """All routers as they would be; raises CommandError as ``forward`` does. Changes nothing."""
    contents = gateway.registry.look()
    router = get_router(contents, name)
    try:
        led = without(router.forward, ports) if remove else with_added(router.forward, ports)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{name}: {error}") from error
    routers = {**contents.routers, name: router.model_copy(update={"forward": led})}
    for conflict in conflicts({each: router.forward for each, router in routers.items()}, gateway.settings.closed):
        raise CommandError(Exit.IN_USE, conflict)
    if not remove:
        _refuse_served(gateway, [each for each in ports if each not in router.forward])
    return replace(contents, routers=routers)


def _refuse_served(gateway: Gateway, ports: Sequence[Ports]) -> None:
    """A program of this machine would not be heard any more."""
    for each in ports:
        if listener := connections.listener_on(each, gateway.settings.network):
            raise CommandError(
                Exit.IN_USE, f"{each} cannot be forwarded: a program of this machine listens at {listener}"
            )


def get_router(contents: Contents, name: str) -> Router:
    """The router ``name``; raises CommandError, exit 64, also if its file is not accepted."""
    if name in contents.faults:
        raise contents.faults[name]
    routers = contents.routers
    if name not in routers:
        raise CommandError(
            Exit.USAGE, f"{name}: no such router: accepted: {', '.join(routers) or 'none, there are none yet'}"
        )
    return routers[name]


def _refuse_taken(contents: Contents, name: str) -> None:
    """Raise CommandError, exit 75, if there is a router ``name``."""
    if name in contents.routers or (name in contents.faults and not isinstance(contents.faults[name], Revoked)):
        raise CommandError(Exit.IN_USE, f"{name} is enrolled: for new keys: tributary rotate {name}")


def next_number(gateway: Gateway, contents: Contents, name: str, *, at_once: bool) -> int:
    """The number that a rotation gives a router: one that nobody has, or where there is none its own, which is free if
    the old keys go ``at_once``. Raises CommandError, exit 69.
    """
    network = gateway.settings.network
    try:
        return free_number(contents.routers, network, contents.reserved)
    except CommandError as full:
        if not at_once:
            raise CommandError(full.code, f"{full}, or remove its old keys at once (--now)") from full
        return free_number(contents.without(name).routers, network, contents.reserved)


def _identity(number: int, now: datetime) -> tuple[str, Identity]:
    """A fresh secret, and what the gateway keeps of it."""
    secret = keys.new_secret()
    public = [keys.public_key(keys.private_key(secret, slot)) for slot in addresses.SLOTS]
    return secret, Identity(number=number, keys=public, enrolled=now.astimezone(UTC).replace(microsecond=0))


def _admit(gateway: Gateway, contents: Contents, admitted: Mapping[str, tuple[Router, str]]) -> EnrolResult:
    """Enrol these routers with their secrets, in the place of those of their names."""
    routers = {name: router for name, (router, _) in admitted.items()}
    public = keys.public_key(gateway.state.private_key())
    enrolments = {name: _enrolment(gateway, *each, public) for name, each in admitted.items()}
    before = {name: contents.routers[name] for name in routers if name in contents.routers}
    # The files last: what fails before is taken away by the next look at the files.
    notes = reconcile(gateway, replace(contents, routers={**contents.routers, **routers}), list(before))
    with ExitStack() as written:
        for name, router in routers.items():
            gateway.registry.write(name, router)
            written.callback(gateway.registry.remove, [name])
        written.pop_all()
    if before:
        notes += gateway.registry.revoked.add({name: lost_keys(each, routers[name]) for name, each in before.items()})
    prefix = gateway.settings.lan_prefix
    without_one = [name for name, enrolment in enrolments.items() if prefix and enrolment.prefix is None]
    return EnrolResult(
        enrolments, [*notes, *(f"{name}: {prefix} has no prefix left: no IPv6 there" for name in without_one)]
    )


def _enrolment(gateway: Gateway, router: Router, secret: str, public_key: str) -> Enrolment:
    settings, newest = gateway.settings, router.next or router
    prefix = addresses.prefix_of(settings.lan_prefix, newest.lan_number)
    return Enrolment.model_validate(
        {
            "gateway": str(Endpoint(settings.name, settings.port)),
            "public_key": public_key,
            "secret": secret,
            "addresses": str(addresses.block_of(settings.network, newest.number)),
            "inside": str(addresses.gateway(settings.network)),
            "prefix": prefix and str(prefix),
        }
    )
