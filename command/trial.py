"""``tributary try``: settings on trial, which the daemon itself takes back unless they are confirmed."""

import select
import sys
from collections.abc import Mapping
from pathlib import Path

from command.lists import Interval
from tributary.api.places import ROUTER, THROTTLER
from tributary.daemons.control import Control
from tributary.daemons.state_file import write_atomic
from tributary.settings.cli import Contradiction, Subcommands
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import text_of

_TRY = """\
Lets the running throttler or router work by FILE for a time. Enter keeps it: it is copied to where the program's own
settings are. Otherwise the program goes back to those: when the time is over, at Ctrl-C, or if this command is killed
or its connection lost, since the program itself watches the time. What was set at run time is dropped either way.
Needs root.

  tributary try throttler.toml
  tributary try new.toml --program router --for 300s
"""


_PROGRAMS: Mapping[str, tuple[Control, str]] = {"throttler": (THROTTLER, "policy"), "router": (ROUTER, "settings")}
"""How each is asked, and what it calls its settings' file in its status."""


def add(commands: Subcommands) -> None:
    """Add the command."""
    added = commands.add("try", _try, "settings on trial", _TRY)
    added.add_argument("file", type=Path, metavar="FILE", help="the new settings: throttler.toml, router.toml")
    added.add_argument(
        "--for",
        dest="span",
        type=Interval.argument,
        default=Interval.parse("60s"),
        metavar="TIME",
        help="go back after this time (default: 60s)",
    )
    added.add_argument("--program", choices=tuple(_PROGRAMS), help="whose settings these are, if not by their name")
    added.add_argument("--dry-run", action="store_true", help="say whether they are accepted, and change nothing")


def _try(file: Path, span: Interval, program: str | None, dry_run: bool) -> int:
    name = program or file.stem
    if name not in _PROGRAMS:
        raise Contradiction(f"--program: accepted: {' or '.join(_PROGRAMS)}, since {file.name} says neither")
    control, key = _PROGRAMS[name]
    text, own = text_of(file), Path(control.ask("status")[key])
    if own.exists() and file.samefile(own):
        raise CommandError(Exit.USAGE, f"{own}: accepted: another file, since the program goes back to this one")
    if dry_run:
        # Not at the top: nothing else here needs the settings' models.
        from router import settings
        from throttler.policy import model

        # As the program does: with the drop-ins of its own settings.
        (model.parse if name == "throttler" else settings.parse)(text, str(file), own)
        print(f"# {file} would replace {own}, for {span}")
        return 0
    control.ask("try", settings=text, name=str(file), seconds=span.seconds)
    kept = False
    try:
        print(f"on trial for {span}: Enter keeps it in {own}, Ctrl-C goes back", flush=True)
        kept = _is_confirmed(span.seconds)
        if kept:
            # For root alone where somebody has removed it: there may be secrets in it.
            write_atomic(own, text.encode(), mode=own.stat().st_mode & 0o777 if own.exists() else 0o600)
    finally:
        control.ask("reload")
    print(f"kept in {own}" if kept else f"back to {own}")
    return 0 if kept else Exit.WRONG_RESULT


def _is_confirmed(seconds: float) -> bool:
    """Whether a line comes in time on standard input; its end is none."""
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable) and sys.stdin.readline().endswith("\n")
