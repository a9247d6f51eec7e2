"""The command ``firstboot``: make a box what tributary.toml on its boot partition says, or check such a file."""

import sys
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from image.firstboot import actions, boot, look, wifi
from image.firstboot.access_point import AccessPoint
from image.firstboot.apply import System
from image.firstboot.boot import Task
from image.firstboot.bypass import Bypass
from image.firstboot.figures import Metrics
from image.firstboot.forward import Forward
from image.firstboot.modem import Modem
from image.firstboot.pppoe import Pppoe
from image.firstboot.reading import Wrong, read
from image.firstboot.report import Report
from image.firstboot.settings import Card, Lan, Network, Role, Routers, Wifi
from image.firstboot.wan import Wan
from tributary.settings.cli import Arguments, Contradiction, need_root, program, run
from tributary.settings.errors import CommandError, Exit, refused
from tributary.settings.files import described
from tributary.settings.probing import Probe
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.tunnels import Tunnels

DESCRIPTION = """\
Make this box what tributary.toml on its boot partition says.

  firstboot                 what every boot does: see below
  firstboot --dry-run       show what that would do, change nothing
  firstboot --check FILE    is this file accepted? On any machine; prints `valid`
  firstboot --report        write tributary-applied.txt anew, with the addresses that the box has by now"""

EPILOG = """\
what it does
  1. Makes SSH host keys if there are none; grows what both slots share, the data partition, to the disk's end.
  2. Reads tributary.toml. One that was applied already is left at that: edits on the box, of what it wrote, stay.
  3. Checks all of it. If anything is wrong nothing changes, and every line that is wrong is shown on the console, above
     the login prompt, and in tributary-errors.txt beside the file.
  4. Writes all files of the box, or none of them; starts and ends units. What it wrote the last time, and what no
     setting asks for any more, goes.
  5. Writes tributary-applied.txt beside the file: what the box is now, and what to do next.

  Run by hand, it does the same; networks follow at the next start.

settings (TOML; an unknown key is refused)
{keys}

files
  CARD/tributary.toml, CARD/tributary-errors.txt, CARD/tributary-applied.txt   CARD is /boot/firmware, or --card
  /usr/lib/tributary/role                       the image's role: what holds where the file names none
  /var/lib/tributary/firstboot/applied.json     what was applied last

exit status
  0 done; 64 wrong arguments, or the file is not accepted; 66 it cannot be read; 69 the image lacks something; 71 the
  system refused an operation; 77 not root; 130 Ctrl-C; 143 SIGTERM

example
  firstboot --check tributary.toml --role router"""

_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", Card),
    ("routers.", Routers),
    ("wifi.", Wifi),
    ("access_point.", AccessPoint),
    ("network.NAME.", Network),
    ("wan.NAME.", Wan),
    ("wan.NAME.pppoe.", Pppoe),
    ("wan.NAME.modem.", Modem),
    ("probe.", Probe),
    ("tunnels.", Tunnels),
    ("lan.", Lan),
    ("bypass.", Bypass),
    ("forward.", Forward),
    ("metrics.", Metrics),
    ("enrolment.", Enrolment),
)


def _run(
    check: Path | None,
    dry_run: bool,
    report: bool,
    again: bool,
    role: str | None,
    root: Path,
    card: Path | None,
    json: bool,
) -> int:
    if check and (dry_run or report or again):
        raise Contradiction("--check stands alone, or with --role and --json")
    system, own = System.at(root), Role(role) if role else look.image_role(root)
    if check:
        return _check(check, own, json)
    task = Task(system, card or root / "boot/firmware", own, again)
    if dry_run:
        _show(task, json)
        return 0
    if system.running:
        need_root("firstboot")
    told = Report(task.card, system.root, Path("/dev/console") if system.running else None)
    if report:
        boot.tell_again(task, told)
    else:
        _boot(task, told, json)
    return 0


def parser() -> Arguments:
    """The arguments of firstboot."""
    parser = Arguments(prog="firstboot", description=DESCRIPTION, epilog=EPILOG.replace("{keys}", "\n".join(_keys())))
    parser.set_handler(_run)
    add = parser.add_argument
    add("--check", type=Path, metavar="FILE", help="check FILE, look at nothing else")
    add("--dry-run", action="store_true", help="show what would be done, change nothing")
    add("--report", action="store_true", help="write tributary-applied.txt anew")
    add("--again", action="store_true", help="apply the file also if it was applied already")
    add("--role", choices=list(Role), help="the image's role (default: what the image says)")
    add("--root", type=Path, default=Path("/"), metavar="FOLDER", help="make the system in FOLDER such a box")
    add("--card", type=Path, metavar="FOLDER", help="where tributary.toml is (default: boot/firmware below --root)")
    add("--json", action="store_true", help="one JSON object on standard output")
    return parser


def _check(path: Path, role: Role, as_json: bool) -> int:
    with refused(Exit.NO_INPUT, path):
        content = path.read_bytes()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    try:
        card = read(content, role, str(path))
        role = card.role or role
        notes = tuple(wifi.links_without_network(card.used_by(role)))
    except Wrong as wrong:
        errors = wrong.lines
    if as_json:
        print(dumps({"valid": not errors, "role": role, "errors": errors, "notes": notes}))
    else:
        print("\n".join(errors or (f"valid, for a {role}", *notes)), file=sys.stderr if errors else sys.stdout)
    return Exit.USAGE if errors else 0


def _show(task: Task, as_json: bool) -> None:
    found = (*boot.due(task.system), *boot.foresee(task, boot.content(task.card)).actions)
    if as_json:
        print(dumps({"changes": [actions.facts(each) for each in found]}, default=str))
    else:
        print("\n".join(line for each in found for line in actions.lines(each)) or "nothing to do")


def _boot(task: Task, report: Report, as_json: bool) -> None:
    outcome: dict[str, Any] = {"applied": [], "errors": []}
    try:
        outcome["applied"] = [str(action) for action in boot.boot(task, report)]
    except CommandError as failure:
        outcome["errors"] = list(failure.lines) if isinstance(failure, Wrong) else [str(failure)]
        raise
    finally:
        if as_json:
            print(dumps(outcome))
    if not as_json:
        print("\n".join(outcome["applied"]) or "nothing to do")


def _keys() -> Iterator[str]:
    for prefix, model in _TABLES:
        keys = model.model_fields.items()
        own = {name: key for name, key in keys if not str(key.description).startswith(("a table", "no such key"))}
        yield described(own, "  ", prefix)


main = program(parser)

if __name__ == "__main__":
    run(main, "firstboot")
