"""The command line of a gateway that home routers reach through tunnels."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gateway import dns, rules, state, tunnels
from gateway.settings import GatewaySettings
from gateway.tunnels import Gateway
from tributary.daemons import directories
from tributary.daemons.logs import Format, to_stderr
from tributary.settings.cli import Arguments, Subcommands, need_root, program
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import described, load

SETTINGS = Path("/etc/tributary/gateway.toml")

_DESCRIPTION = """\
Gives home routers access by their keys, through WireGuard tunnels: one over each of a router's links, in which
Multipath TCP's subflows run to the converter, and one for everything else, which leaves the gateway by NAT.

'up', 'sync', 'down', 'serve' and 'dns' are for the service manager, 'plan' and 'check' change nothing. 'tributary
enrol' adds a router.
"""

_EXIT_CODES = """\
exit codes:
  0   done
  64  wrong arguments, or something in the settings or in a router's file is not accepted; the message says where
  66  a file cannot be read
  69  something is missing: WireGuard, a tool, the interface, a free number
  71  the system refused an operation
  75  for serve: another one answers already; for up: there is another program's interface of that name
  77  not root
"""

_UP = """\
Creates the interface, by the kernel's WireGuard or wireguard-go(1), with its address, the tunnels of all routers and
the rules (nft table inet tributary-gateway), and switches net.ipv4.ip_forward on, and with 'lan_prefix' the same for
IPv6. Where these were off, packets are forwarded from tunnels, to tunnels, and from bridge to bridge only. What exists
already is not changed. The kernel then tracks at least 64 times 'connections' and what ended lately
(net.netfilter.nf_conntrack_max): of TCP, silent ones for 124 minutes in place of five days, ended ones for 10 seconds
in place of 120. 'down' puts back what nobody has changed since.
"""

_SYNC = """\
Reconciles the tunnels with the routers' files, whoever added or removed them; ends rotations; saves traffic counters;
sets up again what another program has taken away of the interface, the rules or forwarding, or the settings have
otherwise by now, and says so.
The service's timer runs it every minute. A router whose file is not accepted is skipped and reported.
"""

_DOWN = """\
Removes interface and rules, and switches forwarding off if 'up' switched it on. All tunnels end, also if the settings
are not accepted any more.
"""

_DNS = """\
Becomes dnsmasq(8), which resolves names for routers at port 53 of the inside address, by the name servers of this
machine. With 'dns = false' in the settings it ends at once. Needs no root, but the right to bind the port.
"""

_SERVE = """\
Answers at a control socket until it is stopped, and prints the line 'ready' when it does: the console lists, enrols and
revokes routers by it. Others than root need the group tributary to look, and tributary-steer to change.
"""

_PLAN = """\
Prints which tunnels 'sync' would add and remove, and the rules. Changes nothing.
"""

_CHECK = """\
Reads the settings and the routers' files, and prints 'valid'. Changes nothing.
"""


def parser() -> Arguments:
    """All commands and their arguments."""
    keys = f"settings (TOML, {SETTINGS}; an unknown key is refused):\n{described(GatewaySettings.model_fields, '  ')}"
    made = Arguments(prog="gateway", description=_DESCRIPTION, epilog=f"{keys}\n\n{_EXIT_CODES}")
    commands = Subcommands(made, _EXIT_CODES)

    def command(name: str, act: Callable[..., None], about: str, text: str) -> Arguments:
        return with_places(commands.add(name, act, about, text))

    for name, opens, act, about, text in _SERVICE:
        with_places(commands.add(name, act, about, text), opens).add_argument(
            "--dry-run", action="store_true", help="say what would be done, and change nothing"
        )
    with_places(commands.add("serve", _serve, "answer the console, until stopped", _SERVE), None)
    command("dns", _dns, "resolve names for routers, until stopped", _DNS)
    command("plan", _plan, "what sync would change", _PLAN)
    command("check", _check, "whether the settings and the routers' files are accepted", _CHECK)
    return made


def open_gateway(settings: Path, state_directory: Path | None) -> Gateway:
    """The gateway as the settings have it; raises CommandError, exit 64 or 66.

    Another name of its interface counts from the next start on: until then routers come in by the one that is there.
    """
    return Gateway(load(settings, GatewaySettings), _state(state_directory)).as_created


def with_places(added: Arguments, opens: Callable[..., Gateway] | None = open_gateway) -> Arguments:
    """Add to a command the arguments that ``open_gateway`` takes; its function gets what ``opens`` makes of them."""
    added.add_argument("--settings", type=Path, default=SETTINGS, metavar="FILE", help=f"default: {SETTINGS}")
    added.add_argument(
        "--state-directory", type=Path, metavar="DIRECTORY", help=f"keys and routers (default: {state.DIRECTORY})"
    )
    if opens:
        added.gather("gateway", opens)
    return added


def _open_to_end(settings: Path, state_directory: Path | None) -> Gateway:
    """The same to take it down, for which what ``up`` has noted is enough."""
    kept = _state(state_directory)
    try:
        return open_gateway(settings, state_directory)
    except CommandError as failure:
        if not kept.changes.interface:
            raise
        print_notes([f"{failure}: removing what `up` has created"])
        # Routers that only the real settings accept are counted no further.
        return Gateway(GatewaySettings(name="unknown"), kept)


def _state(directory: Path | None) -> state.State:
    return state.State(directory or directories.state(state.DIRECTORY))


def print_notes(notes: Sequence[str]) -> None:
    """What is worth knowing, on standard error."""
    for note in notes:
        print(f"gateway: {note}", file=sys.stderr)


def _change(change: Callable[[Gateway], Sequence[str]], gateway: Gateway, dry_run: bool) -> None:
    if dry_run:
        _plan(gateway)
        return
    need_root("gateway up or sync")
    with gateway.state.locked():
        notes = change(gateway)
    print_notes(notes)


def _down(gateway: Gateway, dry_run: bool) -> None:
    if dry_run:
        name = gateway.as_created.settings.interface
        print(f"# the interface {name} and the table inet {rules.TABLE} would be removed")
        return
    need_root("gateway down")
    with gateway.state.locked():
        notes = tunnels.down(gateway)
    print_notes(notes)


_SERVICE = (
    ("up", open_gateway, partial(_change, tunnels.up), "create the tunnels and the rules", _UP),
    ("sync", open_gateway, partial(_change, tunnels.keep_up), "reconcile the tunnels with the routers' files", _SYNC),
    ("down", _open_to_end, _down, "remove tunnels and rules", _DOWN),
)


def _dns(gateway: Gateway) -> None:
    if not gateway.settings.dns:
        print("gateway: dns = false: no names are resolved here", file=sys.stderr)
        return
    command = dns.command(gateway.settings)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, "dnsmasq is not here: install dnsmasq-base") from error


def _serve(settings: Path, state_directory: Path | None) -> None:
    gateway = partial(open_gateway, settings, state_directory)
    gateway()
    need_root("gateway serve")
    # Not at the top: no other command needs a daemon's parts.
    from gateway import service

    log = to_stderr(Format.TEXT)
    try:
        service.serve(gateway, log)
    finally:
        log.close()


def _plan(gateway: Gateway) -> None:
    asked, contents = gateway.settings, gateway.registry.look()
    routers = contents.routers
    for note in contents.notes:
        print(f"# {note}")
    print(f"# interface {asked.interface}: {gateway.inside}, UDP port {asked.port}, mtu {asked.mtu}")
    if asked.lan_prefix:
        print(f"# {asked.lan_prefix} is routed there; IPv6 is forwarded")
    for line in tunnels.describe(gateway.difference(routers)) or ["no tunnel would be added or removed"]:
        print(f"# {line}")
    print(gateway.rules(routers), end="")


def _check(gateway: Gateway) -> None:
    gateway.registry.read()
    print("valid")


main = program(parser)
