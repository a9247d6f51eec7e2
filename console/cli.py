"""The command line of the console."""

from contextlib import closing
from pathlib import Path

from console.settings import ConsoleSettings, read
from tributary.daemons import directories
from tributary.daemons.logs import Format, add_argument, to_stderr
from tributary.settings.cli import Arguments, Subcommands, program

_STATE = Path("/var/lib/tributary-console")

_DESCRIPTION = """\
A page to look at and to steer by: links and paths, sessions, limits, and who has changed what.
"""

_EXIT_CODES = """\
exit codes:
  0   done; for run: stopped by SIGTERM or SIGINT
  64  wrong arguments or settings; the message says what is accepted
  66  the settings cannot be read
  71  the system refused an operation
  75  a console already runs in this network namespace, or the port is taken
"""

_RUN = f"""\
Serves the page until it is stopped, and prints the line 'ready' when it can be opened. It asks the throttler and the
router of this network namespace, and needs no root but the groups tributary, to look, and tributary-steer, to change.
'tributary console login' prints an address that logs in.

The history of links and the journal are kept in the state directory ($STATE_DIRECTORY, or {_STATE}).
"""

_CHECK = """\
Reads settings and prints 'valid', or says what is accepted instead.
"""


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="tributary-console", description=_DESCRIPTION, epilog=_EXIT_CODES)
    commands = Subcommands(made, _EXIT_CODES)
    run = commands.add("run", _run, "serve the page until stopped", _RUN)
    run.add_argument("--settings", type=Path, metavar="FILE", help="a TOML file (default: what each key says)")
    run.add_argument("--state-directory", type=Path, metavar="DIRECTORY", help="where history and journal are kept")
    add_argument(run)
    command = commands.add("check", _check, "whether settings are accepted", _CHECK)
    command.add_argument("settings", type=Path, metavar="FILE", help="a TOML file")
    return made


def _check(settings: Path) -> None:
    read(settings)
    print("valid")


def _run(settings: Path | None, state_directory: Path | None, log: str) -> None:
    asked = read(settings) if settings else ConsoleSettings()
    state = state_directory or directories.state(_STATE)
    # Not at the top: help needs no web server.
    from console.server import serve

    with closing(to_stderr(Format(log))) as events:
        serve(asked, state, events)


main = program(parser)
