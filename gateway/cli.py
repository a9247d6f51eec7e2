"""The command line of a gateway that home routers reach through tunnels."""

import json
import os
import sys
import textwrap
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TypeVar

from gateway import dns, enrolment, report, rules, state, tunnels
from gateway.counters import Totals
from gateway.peers import by_key
from gateway.registry import Contents, free_number, name_of
from gateway.settings import GatewaySettings
from gateway.tunnels import Gateway
from tributary.daemons import directories
from tributary.settings.cli import Arguments, Subcommands, need_root
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import load
from tributary.settings.ports import SERVICE, Ports
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import text

_Options = TypeVar("_Options")

SETTINGS = Path("/etc/tributary/gateway.toml")

_DESCRIPTION = """\
Gives home routers access by their keys, through WireGuard tunnels: one over each of a router's links, in which
Multipath TCP's subflows run to the converter, and one for everything else, which leaves the gateway by NAT.

'enrol' adds a router and prints its enrolment; 'list' shows the routers, 'revoke' removes one, 'rotate' gives one new
keys, 'forward' forwards ports of this machine to one. 'up', 'sync' and 'down' are for the service manager. 'plan' and
'check' change nothing.
"""

_EXIT_CODES = """\
exit codes:
  0   done
  64  wrong arguments, or something in the settings or in a router's file is not accepted; the message says where
  66  a file cannot be read
  69  something is missing: WireGuard, a tool, the interface, a free number
  71  the system refused an operation
  75  a router of that name is enrolled already, or a port is forwarded to another router
  77  not root
"""

_ENROL = """\
Prints a table of TOML for the router's settings, and on a terminal its QR code, too. The table has the router's secret,
which is stored nowhere on this machine and cannot be shown again: 'rotate' makes another one. Tunnels of other routers
are not interrupted.
"""

_FORWARD = f"""\
Forwards ports of this machine's public addresses to a router, which forwards them to a device by its tables
[[forward]]; the device sees the client's address. With --remove they are no longer forwarded.
PORTS: {SERVICE}.
A port is forwarded to one router. Refused are the tunnels' own port, those in never_forwarded, and those at which a
program of this machine listens.
"""

_LIST = """\
Shows each router: its number and addresses, when it was enrolled and last seen, the ports forwarded to it, which of its
links are up (a handshake younger than 180 s) and from where, and bytes. Bytes and last seen are saved by 'sync', and
survive reboots.
"""

_REVOKE = """\
Removes a router's keys, its open connections with this machine, and its file. From then on none of its packets is
accepted; Multipath TCP sessions that lost all their subflows end after net.mptcp.close_timeout.
"""

_ROTATE = """\
Gives a router a new secret, new addresses of its tunnels and new keys, and prints them as 'enrol' does. The old ones
are valid until the new ones are used for the first time ('sync' checks), or are removed at once with --now. The LAN
keeps its IPv6 prefix, which is then routed to the new keys.
"""

_UP = """\
Creates the interface, by the kernel's WireGuard or wireguard-go(1), with its address, the tunnels of all routers and
the rules (nft table inet tributary-gateway), and switches net.ipv4.ip_forward on, and with 'lan_prefix' the same for
IPv6. Where these were off, packets are forwarded from and to tunnels only. What exists already is not changed.
"""

_SYNC = """\
Reconciles the tunnels with the routers' files, whoever added or removed them; ends rotations; saves traffic counters.
The service's timer runs it every minute. A router whose file is not accepted is skipped and reported.
"""

_DOWN = """\
Removes interface and rules, and switches forwarding off if 'up' switched it on. All tunnels end.
"""

_DNS = """\
Becomes dnsmasq(8), which resolves names for routers at port 53 of the inside address, by the name servers of this
machine. With 'dns = false' in the settings it ends at once. Needs no root, but the right to bind the port.
"""

_PLAN = """\
Prints which tunnels 'sync' would add and remove, and the rules. Changes nothing.
"""

_CHECK = """\
Reads the settings and the routers' files, and prints 'valid'. Changes nothing.
"""


def main(words: Sequence[str]) -> int:
    """Run one command; raises CommandError as the commands do."""
    return parser().dispatch(words)


@dataclass(frozen=True)
class Common:
    """What every command is given."""

    settings: Path
    state_directory: Path | None

    def gateway(self) -> Gateway:
        """The gateway as the settings have it; raises CommandError, exit 64 or 66."""
        return Gateway(
            load(self.settings, GatewaySettings),
            state.State(self.state_directory or directories.state(state.DIRECTORY)),
        )


@dataclass(frozen=True)
class ReadOnly(Common):
    """``gateway plan``, ``gateway check``."""


@dataclass(frozen=True)
class Mutating(Common):
    """``gateway up``, ``sync``, ``down``."""

    dry_run: bool


@dataclass(frozen=True)
class Enrol(Mutating):
    """``gateway enrol``."""

    name: str
    qr: bool


@dataclass(frozen=True)
class Rotate(Enrol):
    """``gateway rotate``."""

    now: bool


@dataclass(frozen=True)
class Revoke(Mutating):
    """``gateway revoke``."""

    name: str


@dataclass(frozen=True)
class Forward(Mutating):
    """``gateway forward``."""

    name: str
    ports: list[Ports]
    remove: bool


@dataclass(frozen=True)
class List(Common):
    """``gateway list``."""

    json: bool


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="gateway", description=_DESCRIPTION, epilog=f"{_keys()}\n\n{_EXIT_CODES}")
    commands = Subcommands(made, _EXIT_CODES)

    def command(name: str, of: type[_Options], act: Callable[[_Options], None], about: str, text: str) -> Arguments:
        added = commands.add(name, of, act, about, text)
        added.add_argument("--settings", type=Path, default=SETTINGS, metavar="FILE", help=f"default: {SETTINGS}")
        added.add_argument(
            "--state-directory", type=Path, metavar="DIRECTORY", help=f"keys and routers (default: {state.DIRECTORY})"
        )
        return added

    enrol = command("enrol", Enrol, _enrol, "enrol a router", _ENROL)
    rotate = command("rotate", Rotate, _rotate, "give a router new keys", _ROTATE)
    revoke = command("revoke", Revoke, _revoke, "revoke a router", _REVOKE)
    forward = command("forward", Forward, _forward, "forward ports to a router", _FORWARD)
    for each in (enrol, rotate, revoke, forward):
        each.add_argument("name", metavar="NAME", help="of the router: 1 to 40 of a-z, 0-9 and -")
    for each in (enrol, rotate):
        each.add_argument("--qr", action="store_true", help="the QR code also where no terminal is")
    forward.add_argument("ports", nargs="+", type=_ports, metavar="PORTS", help="such as tcp/443 or udp/27015-27020")
    forward.add_argument("--remove", action="store_true", help="forward them no longer")
    rotate.add_argument("--now", action="store_true", help="remove the old keys at once")
    command("list", List, _list, "show the routers", _LIST).add_argument(
        "--json", action="store_true", help="one JSON document instead of text"
    )
    changing = [command(name, Mutating, act, about, text) for name, act, about, text in _SERVICE]
    for each in (enrol, rotate, revoke, forward, *changing):
        each.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    command("dns", ReadOnly, _dns, "resolve names for routers, until stopped", _DNS)
    command("plan", ReadOnly, _plan, "what sync would change", _PLAN)
    command("check", ReadOnly, _check, "whether the settings and the routers' files are accepted", _CHECK)
    return made


def _ports(text: str) -> Ports:
    try:
        return Ports.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: accepted: {SERVICE}") from error


def _keys() -> str:
    lines = (f"{name}: {field.title}. {field.description}" for name, field in GatewaySettings.model_fields.items())
    return f"settings (TOML, {SETTINGS}; an unknown key is refused):\n" + "\n".join(
        textwrap.fill(line, 118, initial_indent="  ", subsequent_indent="      ") for line in lines
    )


def _enrol(options: Enrol) -> None:
    gateway = options.gateway()
    need_root("gateway enrol")
    if options.dry_run:
        contents = gateway.registry.look()
        enrolment.refuse_taken(contents, name_of(options.name))
        _would_give(options.name, gateway, contents)
        return
    with gateway.state.locked():
        _show(enrolment.enrol(gateway, options.name, datetime.now(UTC)), options.qr)


def _rotate(options: Rotate) -> None:
    gateway = options.gateway()
    need_root("gateway rotate")
    if options.dry_run:
        contents = gateway.registry.look()
        enrolment.get_router(contents, options.name)
        _would_give(options.name, gateway, contents)
        return
    with gateway.state.locked():
        made = enrolment.rotate(gateway, options.name, datetime.now(UTC), at_once=options.now)
    _show(made, options.qr)


def _would_give(name: str, gateway: Gateway, contents: Contents) -> None:
    number = free_number(contents.routers, gateway.settings.network, contents.reserved)
    print(f"# {name} would get the number {number}: {addresses.block_of(gateway.settings.network, number)}")


def _show(made: enrolment.EnrolResult, qr: bool) -> None:
    table = text(made.enrolment)
    print(table, end="", flush=True)
    if qr or sys.stdout.isatty():
        # Not at the top: no other command draws one.
        import segno

        segno.make(table, error="l").terminal(compact=True)
    _print_notes(made.notes)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"gateway: {note}", file=sys.stderr)


def _revoke(options: Revoke) -> None:
    gateway = options.gateway()
    need_root("gateway revoke")
    if options.dry_run:
        contents = gateway.registry.look()
        if options.name in contents.faults:
            print(f"# {options.name} would be revoked; {contents.faults[options.name]}")
            return
        router = enrolment.get_router(contents, options.name)
        for identity in router.identities:
            block = addresses.block_of(gateway.settings.network, identity.number)
            print(f"# {options.name} would be revoked, and its connections from {block} would end")
        return
    with gateway.state.locked():
        _print_notes(enrolment.revoke(gateway, options.name))


def _forward(options: Forward) -> None:
    gateway = options.gateway()
    need_root("gateway forward")
    if options.dry_run:
        enrolment.with_ports(gateway, options.name, options.ports, remove=options.remove)
        would = "no longer be" if options.remove else "be"
        print(f"# {', '.join(map(str, options.ports))} would {would} forwarded to {options.name}")
        return
    with gateway.state.locked():
        _print_notes(enrolment.forward(gateway, options.name, options.ports, remove=options.remove))


def _list(options: List) -> None:
    answer = listed(options)
    if options.json:
        print(json.dumps(answer, indent=2))
        return
    # Not at the top: the other commands print no such text.
    from rich.console import Console

    console = Console()
    for line in report.lines(answer, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def listed(options: Common) -> report.Answer:
    """All routers, as gateway/report.py has them; prints what is wrong with their files on standard error."""
    gateway = options.gateway()
    need_root("gateway list")
    contents = gateway.registry.look()
    routers = contents.routers
    _print_notes(contents.notes)
    there = gateway.there() if gateway.stands else ()
    totals = gateway.counted(_totals(gateway), routers, there)
    return report.routers(routers, gateway.tunnels(routers), by_key(there), totals, time())


def _totals(gateway: Gateway) -> Totals:
    try:
        return gateway.state.totals()
    except CommandError as failure:
        _print_notes([str(failure)])
        return {}


def _up(options: Mutating) -> None:
    _change(options, tunnels.up)


def _sync(options: Mutating) -> None:
    _change(options, tunnels.sync)


def _change(options: Mutating, change: Callable[[Gateway], Sequence[str]]) -> None:
    if options.dry_run:
        _plan(ReadOnly(options.settings, options.state_directory))
        return
    gateway = options.gateway()
    need_root("gateway up or sync")
    with gateway.state.locked():
        _print_notes(change(gateway))


def _down(options: Mutating) -> None:
    gateway = options.gateway()
    if options.dry_run:
        print(f"# the interface {gateway.settings.interface} and the table inet {rules.TABLE} would be removed")
        return
    need_root("gateway down")
    with gateway.state.locked():
        tunnels.down(gateway)


_SERVICE = (
    ("up", _up, "create the tunnels and the rules", _UP),
    ("sync", _sync, "reconcile the tunnels with the routers' files", _SYNC),
    ("down", _down, "remove tunnels and rules", _DOWN),
)


def _dns(options: ReadOnly) -> None:
    settings = load(options.settings, GatewaySettings)
    if not settings.dns:
        print("gateway: dns = false: no names are resolved here", file=sys.stderr)
        return
    command = dns.command(settings)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, "dnsmasq is not here: install dnsmasq-base") from error


def _plan(options: ReadOnly) -> None:
    gateway = options.gateway()
    settings, contents = gateway.settings, gateway.registry.look()
    routers = contents.routers
    for note in contents.notes:
        print(f"# {note}")
    inside = f"{addresses.gateway(settings.network)}/{settings.network.prefixlen}"
    print(f"# interface {settings.interface}: {inside}, UDP port {settings.port}, mtu {settings.mtu}")
    if settings.lan_prefix:
        print(f"# {settings.lan_prefix} is routed there; IPv6 is forwarded")
    for line in tunnels.describe(gateway.difference(routers)) or ["no tunnel would be added or removed"]:
        print(f"# {line}")
    print(gateway.rules(routers), end="")


def _check(options: ReadOnly) -> None:
    options.gateway().registry.read()
    print("valid")
