"""The home routers of a gateway: ``tributary routers | enrol | rotate | revoke | forward``."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time

from command import lists, show
from command.lists import Listing
from command.show import Listed
from gateway import enrolment, report
from gateway.cli import open_gateway, print_notes, with_places
from gateway.tunnels import Gateway
from tributary.api.documents import Router
from tributary.settings.cli import Subcommands, need_root, parsed_by
from tributary.settings.ports import SERVICE, Ports
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import text

_ENROL = """\
Prints a table of TOML for the router's settings, and on a terminal its QR code, too. The table has the router's secret,
which is stored nowhere on this machine and cannot be shown again: 'rotate' makes another one. Tunnels of other routers
are not interrupted. With several names all are enrolled or none, and each table follows a line '# NAME'.
"""

_FORWARD = f"""\
Forwards ports of this machine's public addresses to a router, which forwards them to a device by its tables
[[forward]]; the device sees the client's address. With --remove they are no longer forwarded.
PORTS: {SERVICE}.
A port is forwarded to one router. Refused are the tunnels' own port, those in never_forwarded, and those at which a
program of this machine listens.
"""

_ROUTERS = """\
Shows the home routers that are enrolled at this gateway: their addresses, when they were seen, which links are up (a
handshake younger than 180 s) and from where, bytes, and the ports forwarded to them. Bytes and last seen survive
reboots. Needs root.
"""

_REVOKE = """\
Removes routers' keys, their open connections with this machine, and their files. From then on none of their packets is
accepted, also if a copy of a file is put back; 'enrol' makes new keys. Multipath TCP sessions that lost all their
subflows end after net.mptcp.close_timeout.
"""

_ROTATE = """\
Gives a router a new secret, new addresses of its tunnels and new keys, and prints them as 'enrol' does. The old ones
are valid until the new ones are used for the first time ('sync' checks), or are removed at once with --now. The LAN
keeps its IPv6 prefix, which is then routed to the new keys.
"""


def add(commands: Subcommands) -> None:
    """Add the commands."""
    listed = commands.add("routers", _list, "the home routers of this gateway", _ROUTERS)
    lists.add_arguments(with_places(listed, None))
    enrol = commands.add("enrol", _enrol, "enrol a home router at this gateway", _ENROL)
    rotate = commands.add("rotate", _rotate, "give a home router new keys", _ROTATE)
    revoke = commands.add("revoke", _revoke, "revoke a home router", _REVOKE)
    forward = commands.add("forward", _forward, "forward ports of this gateway to a home router", _FORWARD)
    for each in (enrol, rotate, revoke, forward):
        dest, several = ("names", "+") if each in (enrol, revoke) else ("name", None)
        with_places(each).add_argument(dest, nargs=several, metavar="NAME", help="of a router: 1 to 40 of a-z, 0-9, -")
        each.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    for each in (enrol, rotate):
        each.add_argument("--qr", action="store_true", help="the QR code also where no terminal is")
    ports = parsed_by(Ports.parse, SERVICE)
    forward.add_argument("ports", nargs="+", type=ports, metavar="PORTS", help="such as tcp/443 or udp/27015-27020")
    forward.add_argument("--remove", action="store_true", help="forward them no longer")
    rotate.add_argument("--now", action="store_true", help="remove the old keys at once")


def _list(listing: Listing, settings: Path, state_directory: Path | None) -> None:
    def look() -> Listed[Router]:
        """The settings may change while --watch shows it again and again."""
        return lists.now(_routers(open_gateway(settings, state_directory), with_hint=not listing.json))

    lists.show_list("routers", look, show.ROUTERS, listing)


def _enrol(names: list[str], qr: bool, gateway: Gateway, dry_run: bool) -> None:
    need_root("tributary enrol")
    if dry_run:
        for name, number in enrolment.new_numbers(gateway, gateway.registry.look(), names).items():
            _would_give(name, gateway, number)
        return
    with gateway.state.locked():
        made = enrolment.enrol(gateway, names, datetime.now(UTC), lambda line: print_notes([line]))
    # Not before the lock is free: a terminal may stop.
    _show(made, qr)


def _rotate(name: str, qr: bool, now: bool, gateway: Gateway, dry_run: bool) -> None:
    need_root("tributary rotate")
    if dry_run:
        contents = gateway.registry.look()
        enrolment.get_router(contents, name)
        _would_give(name, gateway, enrolment.next_number(gateway, contents, name, at_once=now))
        return
    with gateway.state.locked():
        made = enrolment.rotate(gateway, name, datetime.now(UTC), at_once=now)
    _show(made, qr)


def _would_give(name: str, gateway: Gateway, number: int) -> None:
    print(f"# {name} would get the number {number}: {addresses.block_of(gateway.settings.network, number)}")


def _show(made: enrolment.EnrolResult, qr: bool) -> None:
    for name, each in made.enrolments.items():
        table = text(each)
        print(f"# {name}\n" * (len(made.enrolments) > 1) + table, end="", flush=True)
        if qr or sys.stdout.isatty():
            # Not at the top: no other command draws one.
            import segno

            segno.make(table, error="l").terminal(compact=True)
    print_notes(made.notes)


def _revoke(names: list[str], gateway: Gateway, dry_run: bool) -> None:
    need_root("tributary revoke")
    if dry_run:
        contents = gateway.registry.look()
        for name in names:
            if name in contents.faults:
                print(f"# {name} would be revoked; {contents.faults[name]}")
                continue
            for identity in enrolment.get_router(contents, name).identities:
                block = addresses.block_of(gateway.settings.network, identity.number)
                print(f"# {name} would be revoked, and its connections from {block} would end")
        return
    with gateway.state.locked():
        notes = enrolment.revoke(gateway, names)
    print_notes(notes)


def _forward(name: str, ports: list[Ports], remove: bool, gateway: Gateway, dry_run: bool) -> None:
    need_root("tributary forward")
    if dry_run:
        enrolment.with_ports(gateway, name, ports, remove=remove)
        would = "no longer be" if remove else "be"
        print(f"# {', '.join(map(str, ports))} would {would} forwarded to {name}")
        return
    with gateway.state.locked():
        notes = enrolment.forward(gateway, name, ports, remove=remove)
    print_notes(notes)


def _routers(gateway: Gateway, *, with_hint: bool) -> Sequence[Router]:
    """All routers; prints what is wrong with their files on standard error."""
    need_root("tributary routers")
    contents = gateway.registry.look()
    routers = contents.routers
    print_notes(contents.notes)
    if not routers and with_hint:
        print_notes(["no router is enrolled: tributary enrol NAME"])
    return report.listed(gateway, routers, time(), lambda line: print_notes([line]))
