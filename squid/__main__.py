"""The command ``squid``: render, check and run the HTTP converter."""

import ipaddress
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from squid import host, process, render
from squid.settings import SquidSettings
from tributary.settings import cli
from tributary.settings.files import described, load
from tributary.settings.hosts import Address

DESCRIPTION = """\
Squid as an HTTP proxy that speaks MPTCP to clients and plain TCP to servers.

  squid render SETTINGS   print squid.conf
  squid guard SETTINGS    print the nft table that keeps MPTCP and forbidden targets off the server side
  squid check SETTINGS    render, and let Squid itself check the result (squid -k parse); prints `valid`
  squid run SETTINGS      check this machine, load the guard, run Squid in the foreground until a signal ends it"""

EPILOG = f"""\
settings (TOML; every key has a default, an unknown one is refused)
{{keys}}

squid run
  Checks first and changes nothing if one fails: root, the commands {", ".join(host.TOOLS)}, the user {host.USER},
  MPTCP in this kernel and network namespace, that no other Squid has the state directory, the port. Prints `ready` once
  Squid listens with MPTCP. SIGTERM and Ctrl-C let running transfers end for the time `drain`; a second one ends them at
  once. Removes the guard, its configuration and Squid's shared memory at its end; logs and cache remain.
  One runs per network namespace.
  With --dry-run it stops after the checks and prints what it would write and load. For an ordinary user it only prints.

files
  With state_directory all in there: squid.conf, squid.pid, log/access.log, log/cache.log, cache/. Squid's user must be
  able to reach it. Without: /run/squid.conf, /run/squid.pid, /var/log/squid/, /var/spool/squid/.

exit status
  1 Squid refuses the configuration; 64 wrong arguments or settings; 66 settings cannot be read; 69 something is missing
  here; 71 the system or Squid failed; 75 the port, the namespace or the state directory is in use; 77 not
  root; 130 Ctrl-C; 143 SIGTERM

example
  printf 'client_networks = ["10.0.0.0/8"]\\n' > squid.toml && sudo scripts/squid run squid.toml"""


def parser() -> cli.Arguments:
    """All commands and their arguments."""
    made = cli.Arguments(
        prog="squid",
        description=DESCRIPTION,
        epilog=EPILOG.replace("{keys}", described(SquidSettings.model_fields, "  ")),
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Callable[..., None]) -> cli.Arguments:
        added: cli.Arguments = commands.add_parser(name, description=f"See squid --help for what `squid {name}` does.")
        added.add_argument("settings", type=Path, metavar="SETTINGS", help="settings file (TOML)")
        added.set_handler(act)
        return added

    command("guard", _guard)
    for each in (command("render", _render), command("check", _check)):
        each.add_argument(
            "--own",
            type=ipaddress.ip_address,
            action="append",
            default=[],
            metavar="ADDRESS",
            help="an address of the gateway, refused as a target (default: those of this machine); may be repeated",
        )
    run = command("run", _run)
    run.add_argument("--dry-run", action="store_true", help="check everything, print, change nothing")
    return made


def _guard(settings: Path) -> None:
    print(render.guard(load(settings, SquidSettings)), end="")


def _render(settings: Path, own: Sequence[Address]) -> None:
    print(_squid_conf(settings, own), end="")


def _check(settings: Path, own: Sequence[Address]) -> None:
    process.check_config(_squid_conf(settings, own))
    print("valid")


def _squid_conf(settings: Path, own: Sequence[Address]) -> str:
    """With the gateway's ``own`` addresses; none: this machine's."""
    return render.squid_conf(load(settings, SquidSettings), own or host.own_addresses())


def _run(settings: Path, dry_run: bool) -> None:
    asked = load(settings, SquidSettings)
    if not dry_run:
        process.serve(asked)
    config = render.squid_conf(asked, host.own_addresses())
    if os.geteuid() == 0:
        process.check_host(asked)
        process.check_config(config)
    else:
        print("squid: note: this host and the configuration are only checked for root", file=sys.stderr)
    print(f"# {asked.paths.config}\n{config}\n# nft -f -\n{render.guard(asked)}", end="")


main = cli.program(parser)

if __name__ == "__main__":
    cli.run(main, "squid")
