"""The command line of the home router's daemon."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time

from pydantic import BaseModel

from router import difference, memory, usage_file
from router.control import CONTROL
from router.settings import Multipath, Wan, read
from router.usage_file import UsageFile
from tributary.daemons import directories, logs
from tributary.settings.cli import Arguments, Subcommands, need_root
from tributary.settings.errors import CommandError, Exit
from tributary.settings.probing import Probe
from tributary.settings.units import Size
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.tunnels import Tunnels

_DESCRIPTION = """\
Keeps policy routing and MPTCP endpoints of a home router right while its access links (WANs) come, go and change
address, so that each Multipath TCP session has a subflow over every link that works.

'run' is the daemon. 'plan' and 'check' look and touch nothing; 'status' asks the daemon of this network namespace.
"""

_EXIT_CODES = """\
exit codes:
  0   done; for run: stopped by SIGTERM or SIGINT, and everything it made was taken away; or by SIGUSR1, and left
  64  wrong arguments, or something in the settings is not accepted; the message names the file, key and value
  66  the settings file cannot be read
  69  the kernel has no MPTCP, or it is switched off; for status: no daemon runs here
  71  the kernel refused an operation
  75  a router daemon already runs in this network namespace
  77  not root, nor, to ask, in the group tributary
"""

_RUN = """\
Finds the links, and installs for each that is up: rules and a routing table for its addresses, a default route in the
table main whose metric is the link's rank, and MPTCP endpoints. What goes down is taken away, and comes back with the
link. Needs root.

Prints the line 'ready' on standard output when what is wanted stands; logs on standard error, one line an event.
  SIGTERM, SIGINT  it takes away what it made, and ends with 0; subflows from its endpoints end with them
  SIGUSR1          it ends with 0 and leaves all in place; the next start takes it over, and no subflow is lost
  SIGHUP           it reads the settings again
What a killed daemon left, the next start takes over, or takes away where it is not wanted any more.

It makes rules and routes of protocol 84: rules of priorities 8391 to 8400, tables 8400 to 8418, routes with metrics 1
to 9 in the table main; with enrolments WireGuard's interfaces tb0 to tb9; and MPTCP endpoints with ids from 128 to 254.
Interfaces and endpoints are written down in the state directory ($RUNTIME_DIRECTORY, or /run/tributary/router) before
they are made. What links have used of monthly caps is kept in $STATE_DIRECTORY, or /var/lib/tributary/router. Nothing
else is touched.
"""

_PLAN = """\
Prints the state of each link, and the commands of ip(8) that do what 'run' would do now. Changes nothing; needs root
only where a daemon has left a note of its endpoints.
"""

_CHECK = """\
Reads the settings, looks at nothing else, and prints 'valid'. Needs no root.
"""

_USAGE = """\
Shows what a link with a monthly_cap has used of it. With --set, sets that to what the provider says; this needs root.
"""

_STATUS = """\
Shows how the gateway and each link stand and what would help, in words; and of each link its interface, addresses and
gateways, since when, its endpoints, and what the last probe took. For root, and members of the
group tributary.
"""


def main(words: Sequence[str]) -> int:
    """Run one command; raises CommandError as the commands do."""
    return parser().dispatch(words)


@dataclass(frozen=True)
class Run:
    """``router run``; ``log`` is the name of the log's form."""

    settings: Path
    state_directory: Path | None
    dry_run: bool
    log: str


@dataclass(frozen=True)
class Plan:
    """``router plan``."""

    settings: Path
    state_directory: Path | None


@dataclass(frozen=True)
class Check:
    """``router check``."""

    settings: Path


@dataclass(frozen=True)
class Status:
    """``router status``."""

    json: bool


@dataclass(frozen=True)
class UsageOf:
    """``router usage``; ``set`` in bytes."""

    link: str
    set: Size | None
    json: bool


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="router", description=_DESCRIPTION, epilog=f"{_settings()}\n\n{_EXIT_CODES}")
    command = Subcommands(made, _EXIT_CODES).add
    run = command("run", Run, _run, "keep the links until stopped", _RUN)
    plan = command("plan", Plan, _plan, "what run would change now", _PLAN)
    check = command("check", Check, _check, "whether the settings are accepted", _CHECK)
    for each in (run, plan, check):
        each.add_argument("settings", type=Path, metavar="SETTINGS", help="settings file (TOML)")
    for each in (run, plan):
        each.add_argument("--state-directory", type=Path, metavar="DIRECTORY", help="where its endpoints are noted")
    run.add_argument("--dry-run", action="store_true", help="do as 'plan' does, and change nothing")
    run.add_argument(
        "--log", choices=[form.value for form in logs.Format], default=logs.Format.TEXT.value, help="form of the log"
    )
    status = command("status", Status, _status, "the links as the daemon sees them", _STATUS)
    usage = command("usage", UsageOf, _usage, "what a link has used of its monthly cap", _USAGE)
    usage.add_argument("link", metavar="LINK", help="its name in the settings")
    usage.add_argument("--set", type=Size.argument, metavar="SIZE", help="what was used, such as 12GB, or 0B")
    for each in (status, usage):
        each.add_argument("--json", action="store_true", help="one JSON document instead of text")
    return made


def _settings() -> str:
    tables = (
        ("[wan.NAME], one for each link", Wan),
        ("[mptcp]", Multipath),
        ("[probe]", Probe),
        ("[[enrolment]], one for each gateway", Enrolment),
        ("[tunnels]", Tunnels),
    )
    return "settings (TOML; an unknown key is refused):\n" + "\n".join(
        line for title, model in tables for line in (f"  {title}", *_keys(model))
    )


def _keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        text = f"{name}: {field.title}. {field.description}"
        yield textwrap.fill(text, 118, initial_indent="    ", subsequent_indent="        ")


def _run(options: Run) -> None:
    if options.dry_run:
        _plan(Plan(options.settings, options.state_directory))
        return
    settings = read(options.settings)
    need_root("router run")
    # Not at the top: the other commands do not need what the daemon is made of.
    from router import daemon

    log = logs.to_stderr(logs.Format(options.log))
    state, usage = _state(options.state_directory), _kept()
    daemon.run(daemon.Setup(options.settings, settings, state, usage, log))


def _plan(options: Plan) -> None:
    settings = read(options.settings)
    # Not at the top: the other commands do not look at the kernel.
    from router.keeper import Keeper
    from router.kernel import clock
    from router.kernel.door import Door
    from router.quality import Quality
    from router.shaping import Kind, command

    with Door() as door:
        observed = door.look()
    note = memory.Store(_state(options.state_directory), directories.namespace()).load()
    keeper = Keeper(settings, note, _kept().load())
    decision = keeper.look(observed, time(), is_right=clock.is_right())
    for link in keeper.links:
        interface = f" ({link.interface.name})" if link.interface else ""
        print(f"# {link.name}{interface}: {keeper.state(link) or 'up'}")
    for name in sorted(keeper.names_taken):
        print(f"# {name}: another interface has this name, and its tunnel is left out: choose another tunnels.prefix")
    names = {interface.index: interface.name for interface in observed.interfaces}
    shaping = Quality(settings).steps(keeper.links, observed)
    for step in decision.steps:
        print(difference.command(step, names))
    for each in shaping:
        print(command(each, Kind.CAKE))
    if not decision.steps and not shaping:
        print("# nothing to change")


def _state(given: Path | None) -> Path:
    return given or directories.runtime(memory.DIRECTORY)


def _kept() -> UsageFile:
    return UsageFile(directories.state(usage_file.DIRECTORY))


def _check(options: Check) -> None:
    read(options.settings)
    print("valid")


def _usage(options: UsageOf) -> None:
    if options.set is not None:
        CONTROL.ask("set-usage", link=options.link, used=options.set.amount)
    caps = {link["name"]: link["cap"] for link in CONTROL.ask("status")["wan"] if link["cap"]}
    if options.link not in caps:
        raise CommandError(
            Exit.USAGE, f"{options.link}: no link with a monthly_cap; these are: {', '.join(caps) or 'none'}"
        )
    if options.json:
        print(json.dumps(caps[options.link], indent=2))
        return
    # Not at the top: the other commands print no such text.
    from router import status_text

    print(status_text.used(caps[options.link]))


def _status(options: Status) -> None:
    answer = CONTROL.ask("status")
    if options.json:
        print(json.dumps(answer, indent=2))
        return
    # Not at the top: the other commands print no such text.
    from rich.console import Console

    from router import status_text

    status_text.show(answer, Console())
