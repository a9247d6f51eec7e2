"""The door to the system: does what a plan says below a root folder, and on the machine if that is its own root."""

import socket
import subprocess
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from image.firstboot import files
from image.firstboot.actions import (
    Action,
    DisableUnit,
    EnableUnit,
    GrowFileSystem,
    GrowPartition,
    MakeHostKeys,
    OnMachine,
    SetHostname,
    Upkeep,
    WriteFile,
)
from image.firstboot.memory import PLACE, Memory
from tributary.settings.failure import Exit, Failure

_NOTHING_TO_DO = 1  # of growpart(1), which says NOCHANGE then


@dataclass(frozen=True)
class System:
    """A system below ``root``; ``running`` if it is the one that runs this program."""

    root: Path
    running: bool

    @classmethod
    def at(cls, root: Path) -> "System":
        """The running one at /."""
        return cls(root, root.resolve() == Path("/"))


def apply(actions: Sequence[Action], digest: str, system: System) -> None:
    """Do all of ``actions``, and remember them under ``digest``; raises Failure (71), and then all files are as before.

    Units that were enabled by then stay so; they find the old files.
    """
    on_files = [action for action in actions if not isinstance(action, OnMachine)]
    on_machine = [action for action in actions if isinstance(action, OnMachine)]
    news = files.news(system.root, on_files)
    memory = WriteFile(f"/{PLACE}", Memory.after(digest, actions).text())
    with files.changed(system.root, [*on_files, memory]):
        for action in on_machine:
            for command in commands(action, system, news):
                run(command)
            if isinstance(action, SetHostname) and system.running:
                socket.sethostname(action.name)


def commands(action: OnMachine, system: System, news: Set[str]) -> Iterable[Sequence[str]]:
    """What does ``action``, where the files ``news`` are new.

    ``--no-block``: this program runs before those units may start, and would wait for itself.
    """
    match action:
        case EnableUnit(unit, gently, reads):
            yield _systemctl(system, "enable", unit)
            if system.running:
                again = "reload-or-restart" if gently else "restart"
                yield "systemctl", "start" if reads and news.isdisjoint(reads) else again, "--no-block", unit
        case DisableUnit(unit):
            yield _systemctl(system, "disable", unit)
            if system.running:
                yield "systemctl", "stop", "--no-block", unit


def _systemctl(system: System, verb: str, unit: str) -> Sequence[str]:
    root = () if system.running else (f"--root={system.root}",)
    return "systemctl", *root, "--quiet", verb, unit


def keep_up(action: Upkeep, system: System) -> None:
    """Do one thing that every boot looks after; raises Failure (69, 71)."""
    match action:
        case MakeHostKeys():
            # With -f the keys are those of a system below a folder (ssh-keygen(1)).
            run(["ssh-keygen", "-A", *([] if system.running else ["-f", str(system.root)])])
        case GrowPartition(disk, number):
            run(["growpart", disk, str(number)], _NOTHING_TO_DO)
        case GrowFileSystem(device):
            run(["resize2fs", device])


def run(command: Sequence[str], *fine: int) -> None:
    """Run ``command``; raises Failure: 69 if it is not here, 71 if it ends with neither 0 nor one of ``fine``."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Failure(Exit.UNAVAILABLE, f"{command[0]} is missing: the image has to bring it") from error
    if done.returncode not in (0, *fine):
        said = (done.stderr or done.stdout).strip().splitlines() or [f"it ended with {done.returncode}"]
        raise Failure(Exit.SYSTEM, f"{' '.join(command)}: {said[-1]}")
