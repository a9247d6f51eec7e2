"""The door to the system: does what a plan says below a root folder, and on the machine if that is its own root."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from image.firstboot import files, memory
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
from image.firstboot.memory import Memory
from tributary.daemons.state_file import write_atomic
from tributary.kernel.process import run as program
from tributary.settings.errors import CommandError, Exit

_TIMEOUT = 900.0
"""Seconds: units may take their time to start, and a large card its to grow."""
_NOTHING_TO_DO = 1  # of growpart(1), which says NOCHANGE then


@dataclass(frozen=True)
class System:
    """A system below ``root``; ``running`` if it is the one that runs this program."""

    root: Path
    running: bool

    @classmethod
    def at(cls, root: Path) -> "System":
        return cls(root, root.resolve() == Path("/"))


def apply(actions: Sequence[Action], digest: str, system: System) -> None:
    """Do all of ``actions``, and remember them under ``digest``; raises CommandError (71), and then all files are as
    before.

    Units that were enabled by then stay so; they find the old files. Power may go at any time: until all is done, the
    memory has no digest, and the next start does all of it again.
    """
    on_files = [action for action in actions if not isinstance(action, OnMachine)]
    on_machine = [action for action in actions if isinstance(action, OnMachine)]
    news = files.news(system.root, on_files)
    begun = WriteFile(f"/{memory.PLACE}", memory.read(system.root).during(actions).text())
    with files.changed(system.root, [begun, *on_files]):
        if system.running:
            for action in on_machine:
                if isinstance(action, SetHostname):
                    socket.sethostname(action.name)
        for command in commands(on_machine, system, news):
            run(command)
        done = Memory.after(digest, actions).text().encode()
        write_atomic(files.inside(system.root, begun.path), done, begun.mode)


def commands(actions: Iterable[OnMachine], system: System, news: Set[str]) -> Iterator[Sequence[str]]:
    """What does all that ``actions`` say of units, where the files ``news`` are new.

    systemd reads its units anew once: each time takes a slow board half a second. ``--no-block``: this program runs
    before those units may start, and would wait for itself.
    """
    root = () if system.running else (f"--root={system.root}",)
    jobs: dict[str, list[str]] = {}
    for action in actions:
        match action:
            case EnableUnit(unit):
                jobs.setdefault("enable", []).append(unit)
                jobs.setdefault(_start(action, news), []).append(unit)
            case DisableUnit(unit):
                jobs.setdefault("disable", []).append(unit)
                jobs.setdefault("stop", []).append(unit)
    for verb in ("enable", "disable"):
        if verb in jobs:
            yield "systemctl", *root, "--quiet", "--no-reload", verb, *jobs.pop(verb)
    if system.running and jobs:
        yield "systemctl", "daemon-reload"
        for verb, units in jobs.items():
            yield "systemctl", verb, "--no-block", *units


def _start(action: EnableUnit, news: Set[str]) -> str:
    if action.reads and news.isdisjoint(action.reads):
        return "start"
    return "reload-or-restart" if action.gently else "restart"


def keep_up(action: Upkeep, system: System) -> None:
    """Do one thing that every boot looks after; raises CommandError (69, 71)."""
    match action:
        case MakeHostKeys():
            # With -f the keys are those of a system below a folder (ssh-keygen(1)).
            run(["ssh-keygen", "-A", *([] if system.running else ["-f", str(system.root)])])
            os.sync()  # whoever logs in now remembers them
        case GrowPartition(disk, number):
            run(["growpart", disk, str(number)], _NOTHING_TO_DO)
        case GrowFileSystem(device):
            run(["resize2fs", device])


def run(command: Sequence[str], *fine: int) -> None:
    """Run ``command``; raises CommandError: 69 if it is not here, 71 if it ends with neither 0 nor one of ``fine``."""
    done = program(command, timeout=_TIMEOUT)
    if done.returncode not in (0, *fine):
        said = (done.stderr or done.stdout).strip().splitlines() or [f"it ended with {done.returncode}"]
        raise CommandError(Exit.SYSTEM, f"{' '.join(command)}: {said[-1]}")
