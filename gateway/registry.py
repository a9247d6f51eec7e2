"""The home routers that are enrolled: a file for each, with its number and the public keys of its tunnels.

The file is all that the gateway keeps of an enrolment; a router's secret is not in it. Removing a file revokes the
router, adding one enrols it, unless its keys were revoked by a command.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Self

import tomli_w
from pydantic import Field, model_validator

from gateway.forwards import conflicts
from gateway.revoked import RevokedKeys
from tributary.daemons.state_file import unlink, write_atomic
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import Settings, load
from tributary.settings.ports import Ports, ServicePorts
from tributary.settings.values import accepting
from tributary.wireguard.addresses import SLOTS, block_of, max_routers
from tributary.wireguard.keys import KEY, Key

NAME = "1 to 40 of a-z, 0-9 and -"
NUMBER = "a whole number from 1: the router's block of 16 addresses"
LAN = "a whole number from 1, that of no other router's LAN"
KEYS = f"{len(SLOTS)} public keys, no two the same, of the tunnels in slots 0 to {SLOTS[-1]}; each {KEY}"
MOMENT = "a date and time with its offset from UTC, such as 2026-11-24T10:00:00Z"


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError
    return value


class Identity(Settings):
    """A router's keys and the addresses of its tunnels; a rotation gives it new ones of both."""

    number: int = Field(ge=1, title="its block of addresses", description=NUMBER)
    keys: list[Key] = Field(title="its tunnels' public keys", description=KEYS)
    enrolled: Annotated[datetime, accepting(MOMENT, _moment)] = Field(title="when that was")
    lan: int | None = Field(
        None,
        ge=1,
        title="the number whose IPv6 prefix its LAN has, from before a rotation; none: its own",
        description=LAN,
    )

    @model_validator(mode="after")
    def _a_key_for_each_slot(self) -> Self:
        if len(self.keys) != len(SLOTS) or len(set(self.keys)) < len(SLOTS):
            raise ValueError(KEYS)
        return self

    @property
    def lan_number(self) -> int:
        """Which IPv6 prefix its LAN has: devices keep their addresses when the router gets other keys."""
        return self.lan or self.number


class Router(Identity):
    """A router; ``next`` is its identity once its new keys are used; both are valid until then."""

    forward: list[ServicePorts] = Field([], title="ports of the gateway's public addresses that are forwarded to it")
    next: Identity | None = Field(None, title="what a rotation gave it", description="a table [next] of the same keys")

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The identities that are valid now."""
        return (self, self.next) if self.next else (self,)

    def rotated(self) -> "Router":
        """The router after its next identity has replaced this one."""
        return Router(**self.next.model_dump(), forward=self.forward) if self.next else self


Routers = Mapping[str, Router]
"""By their names."""


class Revoked(CommandError):
    """A file all of whose keys were revoked; exit code 64."""

    def __init__(self, path: Path, day: str) -> None:
        super().__init__(
            Exit.USAGE, f"{path}: its keys were revoked on {day}: tributary enrol {path.stem} makes new ones"
        )


def name_of(text: str, where: str = "") -> str:
    """``text`` if it can be a router's name; raises CommandError, exit 64, whose message begins with ``where``."""
    if re.fullmatch(r"[a-z0-9-]{1,40}", text) is None:
        raise CommandError(Exit.USAGE, f"{where}{text!r}: accepted as a router's name: {NAME}")
    return text


def free_number(routers: Routers, network: IPv4Network, reserved: Collection[int] = ()) -> int:
    """The least number that no router has, nor its LAN, and that is not ``reserved``.

    Raises CommandError, exit 69, if ``network`` is full.
    """
    identities = [identity for router in routers.values() for identity in router.identities]
    taken = {*reserved, *(number for each in identities for number in (each.number, each.lan_number))}
    for number in range(1, max_routers(network) + 1):
        if number not in taken:
            return number
    raise CommandError(Exit.UNAVAILABLE, f"{network} is full: {max_routers(network)} routers; revoke some")


@dataclass(frozen=True)
class Contents:
    """The routers whose files are accepted, and what is wrong with the other files, by their names without .toml.

    Numbers in these are ``reserved`` until they are corrected. ``damaged`` says that nobody knows what was revoked.
    """

    routers: Routers
    faults: Mapping[str, CommandError]
    reserved: frozenset[int] = frozenset()
    damaged: str = ""

    def without(self, *names: str) -> "Contents":
        """The same when the files of ``names`` are gone."""
        routers = {name: router for name, router in self.routers.items() if name not in names}
        return replace(self, routers=routers, faults={name: self.faults[name] for name in self.faults.keys() - names})

    @property
    def notes(self) -> list[str]:
        """A line for each file that is not accepted."""
        damaged = [f"{self.damaged}; until then copies of revoked routers' files let them in"] if self.damaged else []
        lines = (f"{fault}: this router has no access until its file is corrected" for fault in self.faults.values())
        return [*damaged, *lines]


@dataclass(frozen=True)
class Registry:
    """The folder of the files NAME.toml; ``network`` has their addresses, and no router is given ``closed`` ports."""

    folder: Path
    network: IPv4Network
    closed: Sequence[Ports] = ()

    def read(self) -> Routers:
        """All routers in the order of their names; raises CommandError: exit 64, 66 if a file is not accepted, 71
        for a damaged list of what was revoked, 77.
        """
        contents = self.look()
        if contents.faults:
            code = next(iter(contents.faults.values())).code
            raise CommandError(code, "\n".join(map(str, contents.faults.values())))
        if contents.damaged:
            raise CommandError(Exit.SYSTEM, contents.damaged)
        return contents.routers

    def look(self) -> Contents:
        """All routers in the order of their names, but for those whose files are not accepted; raises CommandError,
        exit 77.

        Of two files that contradict each other the one that was changed last is not accepted.
        """
        found: dict[str, Router] = {}
        faults: dict[str, CommandError] = {}
        reserved: set[int] = set()
        claims: dict[tuple[str, int | str], str] = {}
        led: dict[str, Sequence[Ports]] = {}
        paths = sorted(self._files(), key=_age)
        revoked, damaged = self._revoked_days()
        for path in paths:
            try:
                name, router = name_of(path.stem, f"{path}: "), _valid(path, load(path, Router), revoked)
                self._has_room(name, router)
                _refuse_doubles(self.folder, claims, name, router)
                self._refuse_conflicts(led, name, router)
            except CommandError as failure:
                faults[path.stem] = failure
                reserved |= _numbers_in(path)
                continue
            found[name] = router
            claims |= dict.fromkeys(_claims(router), name)
            led |= {name: router.forward} if router.forward else {}
        in_order = {name: found[name] for name in sorted(found)}
        return Contents(in_order, {name: faults[name] for name in sorted(faults)}, frozenset(reserved), damaged)

    def _revoked_days(self) -> tuple[Mapping[str, str], str]:
        """When each key was revoked, and why that is not known: no damaged file keeps all routers out."""
        try:
            return self.revoked.days(), self.revoked.lost
        except CommandError as failure:
            return {}, str(failure)

    def _refuse_conflicts(self, led: Mapping[str, Sequence[Ports]], name: str, router: Router) -> None:
        if not router.forward:
            return
        for conflict in conflicts({**led, name: router.forward}, self.closed):
            raise CommandError(Exit.USAGE, f"{self._file(name)}: {conflict}")

    def write(self, name: str, router: Router) -> None:
        """Put or replace the file of ``name``; raises CommandError, exit 71."""
        document = router.model_dump(exclude_defaults=True)
        write_atomic(self._file(name), tomli_w.dumps(document).encode())

    def revoke(self, names: Collection[str], others: Routers) -> list[str]:
        """Remove the files of ``names``, and refuse the keys in them from then on; returns what of the latter failed.

        A file that is not accepted may have keys of ``others``, which stay. Raises CommandError, exit 71.
        """
        kept = {key for router in others.values() for key in _keys(router)}
        found = {name: re.findall(r"[A-Za-z0-9+/]{43}=", _text(self._file(name))) for name in names}
        notes = self.revoked.add({name: {*keys} - kept for name, keys in found.items()})
        self.remove(names)
        return notes

    def remove(self, names: Collection[str]) -> None:
        """Remove the files of ``names``; raises CommandError, exit 71."""
        for name in names:
            unlink(self._file(name))

    @property
    def revoked(self) -> RevokedKeys:
        """Keys that no file gives access. Beside the folder, which others may fill."""
        return RevokedKeys(self.folder.parent / "revoked.json")

    def _files(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.suffix == ".toml"]
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise CommandError(Exit.NO_PERMISSION, f"{self.folder}: can be read by root alone: use sudo") from error

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def _has_room(self, name: str, router: Router) -> None:
        for identity in router.identities:
            try:
                block_of(self.network, identity.number)
            except ValueError as error:
                raise CommandError(Exit.USAGE, f"{self._file(name)}: number = {identity.number}: {error}") from error


def _valid(path: Path, router: Router, revoked: Mapping[str, str]) -> Router:
    """The router with its identities that were not revoked; raises Revoked without any."""
    days = [next((revoked[key] for key in each.keys if key in revoked), None) for each in router.identities]
    match days:
        case [None] | [None, None]:
            return router
        case [None, _]:
            return router.model_copy(update={"next": None})
        case [_, None]:
            return router.rotated()
    raise Revoked(path, str(days[-1]))


def _refuse_doubles(folder: Path, owners: Mapping[tuple[str, int | str], str], name: str, router: Router) -> None:
    own = set()
    for what, value in _claims(router):
        if owner := name if (what, value) in own else owners.get((what, value)):
            raise CommandError(Exit.USAGE, f"{folder}: {owner}.toml and {name}.toml have the same {what}: {value}")
        own.add((what, value))


def _age(path: Path) -> tuple[int, str]:
    """What was changed first comes first."""
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name


def _numbers_in(path: Path) -> set[int]:
    """The numbers that a file which is not accepted may give to its router and its LAN, whatever it calls them."""
    lines = re.findall(r"^\s*\w+\W{0,4}(\d{1,9})\b", _text(path), re.ASCII | re.MULTILINE)
    return {int(digits) for digits in lines}


def _text(path: Path) -> str:
    """What can be read of a file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def lost_keys(before: Router, after: Router) -> list[str]:
    """The keys that a router no longer has."""
    return [key for key in _keys(before) if key not in _keys(after)]


def _keys(router: Router) -> list[str]:
    return [key for identity in router.identities for key in identity.keys]


def _claims(router: Router) -> Iterator[tuple[str, int | str]]:
    for identity in router.identities:
        yield "number", identity.number
        for key in identity.keys:
            yield "key", key
    for number in sorted({identity.lan_number for identity in router.identities}):
        yield "number of a LAN", number
