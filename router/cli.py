"""The command line of the home router's daemon."""

from collections.abc import Mapping
from pathlib import Path
from time import monotonic, time

from pydantic import BaseModel

from router.settings import Multipath, RouterSettings, Wan, read
from tributary.daemons import directories, logs
from tributary.settings.cli import Arguments, Subcommands, need_root, program
from tributary.settings.files import described
from tributary.settings.metrics import Metrics
from tributary.settings.probing import Probe
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.tunnels import Tunnels

_STATE, _USAGE = Path("/run/tributary/router"), Path("/var/lib/tributary/router")

_DESCRIPTION = """\
Keeps policy routing and MPTCP endpoints of a home router correct while its access links (WANs) come, go and change
address, so that each Multipath TCP session has a subflow over every working link.

'run' is the daemon. 'plan' and 'check' change nothing; tributary(8) shows what the daemon does, and steers it.
"""

_EXIT_CODES = """\
exit codes:
  0   done; for run: stopped by SIGTERM or SIGINT, and all it created was removed; or by SIGUSR1, and all was left
  64  wrong arguments, or something in the settings is not accepted; the message names the file, key and value
  66  the settings file cannot be read
  69  the kernel has no MPTCP, or it is switched off
  71  the kernel refused an operation
  75  a router daemon already runs in this network namespace
  77  not root
"""

_RUN = """\
Finds the links, and installs for each that is up: rules and a routing table for its addresses, a default route in the
table main whose metric is the link's rank, and MPTCP endpoints. Removes them when the link goes down, and creates them
again when it comes back. Needs root.

Prints the line 'ready' on standard output when all is installed; logs on standard error, one line an event.
  SIGTERM, SIGINT  removes what it created, and ends with 0; subflows from its endpoints end with them
  SIGUSR1          ends with 0 and leaves all in place; the next start takes it over, and no subflow is lost
  SIGHUP           reads the settings again, and drops what 'tributary link' set
After a crash the next start takes over what is there, and removes what is not needed any more.

It creates rules and routes of protocol 84: rules of priorities 8391 to 8400, tables 8400 to 8418, routes with metrics 1
to 9 in the table main; with enrolments WireGuard's interfaces tb0 to tb9; and MPTCP endpoints with ids from 128 to 254.
Interfaces and endpoints are recorded in the state directory ($RUNTIME_DIRECTORY, or /run/tributary/router) before they
are created. The usage of monthly caps is saved in $STATE_DIRECTORY, or /var/lib/tributary/router. Nothing else is
touched.
"""

_PLAN = """\
Prints the state of each link, and the commands of ip(8) that do what 'run' would do now. Changes nothing; needs root
only if a daemon has left a record of its endpoints.
"""

_CHECK = """\
Reads the settings, and prints 'valid'. Needs no root.
"""


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="router", description=_DESCRIPTION, epilog=f"{_settings()}\n\n{_EXIT_CODES}")
    command = Subcommands(made, _EXIT_CODES).add
    run = command("run", _run, "manage the links until stopped", _RUN)
    plan = command("plan", _plan, "show what run would change now", _PLAN)
    check = command("check", _check, "check the settings", _CHECK)
    for each in (run, plan, check):
        each.add_argument("settings", type=Path, metavar="SETTINGS", help="settings file (TOML)")
    for each in (run, plan):
        each.add_argument(
            "--state-directory", type=Path, metavar="DIRECTORY", help="directory of the record of endpoints"
        )
    run.add_argument("--dry-run", action="store_true", help="like 'plan': change nothing")
    logs.add_argument(run)
    return made


_TABLES: Mapping[str, tuple[str, type[BaseModel]]] = {
    "wan": ("[wan.NAME], one for each link", Wan),
    "mptcp": ("[mptcp]", Multipath),
    "probe": ("[probe]", Probe),
    "enrolment": ("[[enrolment]], one for each gateway", Enrolment),
    "tunnels": ("[tunnels]", Tunnels),
    "metrics": ("[metrics]", Metrics),
}


def _settings() -> str:
    own = {name: field for name, field in RouterSettings.model_fields.items() if name not in _TABLES}
    parts = (("before all tables", own), *((title, model.model_fields) for title, model in _TABLES.values()))
    return "settings (TOML; an unknown key is refused):\n" + "\n".join(
        f"  {title}\n{described(keys, '    ')}" for title, keys in parts
    )


def _run(settings: Path, state_directory: Path | None, dry_run: bool, log: str) -> None:
    """``log`` is the name of the log's form."""
    if dry_run:
        _plan(settings, state_directory)
        return
    asked = read(settings)
    need_root("router run")
    # Not at the top: the other commands do not need the daemon's modules.
    from router import daemon

    events = logs.to_stderr(logs.Format(log))
    daemon.run(daemon.Options(settings, asked, _state(state_directory), directories.state(_USAGE), events))


def _plan(settings: Path, state_directory: Path | None) -> None:
    asked = read(settings)
    # Not at the top: the other commands do not read the kernel's state.
    from router import kernel_client
    from router.links.usage import UsageFile
    from router.shaping.model import Kind, command
    from router.shaping.shaper import LinkShapers
    from router.state import owned, plan
    from router.state.reconciler import Reconciler
    from tributary.kernel import clock

    observed = kernel_client.snapshot()
    note = owned.RecordFile(_state(state_directory), directories.namespace()).load()
    reconciler = Reconciler(asked, note, UsageFile(directories.state(_USAGE)).load())
    decision = reconciler.reconcile(observed, time(), monotonic(), is_synchronized=clock.is_synchronized())
    for link in reconciler.links:
        interface = f" ({link.interface.name})" if link.interface else ""
        print(f"# {link.name}{interface}: {link.reason or 'up'}")
    for name in sorted(reconciler.names_taken):
        print(f"# {name}: another interface has this name, and its tunnel is left out: choose another tunnels.prefix")
    names = {interface.index: interface.name for interface in observed.interfaces}
    shaping = LinkShapers(asked).plan(reconciler.links, observed)
    for operation in decision.operations:
        print(plan.command(operation, names))
    for each in shaping:
        print(command(each, Kind.CAKE))
    if not decision.operations and not shaping:
        print("# nothing to change")


def _state(given: Path | None) -> Path:
    return given or directories.runtime(_STATE)


def _check(settings: Path) -> None:
    read(settings)
    print("valid")


main = program(parser)
