"""One boot: what is looked after in any case, then the card's file, if it is not the one that was applied last."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from image.firstboot import interfaces, look, memory, upkeep
from image.firstboot.actions import Action, Upkeep
from image.firstboot.apply import System, apply, keep_up, run
from image.firstboot.facts import Facts
from image.firstboot.plan import plan
from image.firstboot.reading import NAME, Wrong, read
from image.firstboot.report import Report, next_steps
from image.firstboot.settings import Card, Role
from tributary.daemons.state_file import Tell
from tributary.settings.errors import CommandError, Exit

_SETTLE_SECONDS = 10
_EXPLAINED = f"/usr/share/doc/tributary-image/examples/{NAME}"


@dataclass(frozen=True)
class Task:
    """``role`` is the image's, or what the command line says instead; ``again``: also a file that was applied."""

    system: System
    card: Path
    role: Role
    again: bool = False


@dataclass(frozen=True)
class Outlook:
    """What there is to do; there are no ``actions`` if the file was applied already."""

    card: Card
    facts: Facts
    digest: str
    actions: tuple[Action, ...]


def content(folder: Path) -> bytes:
    """The card's file; raises CommandError (66) if there is none."""
    path = folder / NAME
    try:
        return path.read_bytes()
    except OSError as error:
        other = next(iter(sorted(folder.glob(f"{NAME}.*"))), None)
        hint = (
            f"{other.name} is there: rename it"
            if other
            else f"an empty one will do to begin with: {_EXPLAINED} has all settings"
        )
        raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error.strerror}: {hint}") from error


def foresee(task: Task, text: bytes, tell: Tell | None = None) -> Outlook:
    """What would come of ``text`` as the card's file; raises CommandError (64, 69) as ``read`` and ``plan`` do.

    ``tell``: as ``memory.read`` takes it.
    """
    card = read(text, task.role)
    last = memory.read(task.system.root, tell)
    digest = memory.digest(text, task.role)
    facts = look.facts(task.system.root, task.role, last)
    return Outlook(card, facts, digest, plan(card, facts) if task.again or digest != last.digest else ())


def due(system: System) -> tuple[Upkeep, ...]:
    """What is looked after in any case."""
    return upkeep.due(system.root) if system.running else ()


def boot(task: Task, report: Report) -> Sequence[Action]:
    """Do it, and tell on the card and the console; returns what was done of the file.

    Raises the first CommandError, after all that could be done without it was done.
    """
    failed = _keep_up(task.system, report)
    if task.system.running:
        run(["udevadm", "settle", f"--timeout={_SETTLE_SECONDS}"], 1)
    try:
        ahead = foresee(task, content(task.card), report.note)
        if ahead.actions:
            apply(ahead.actions, ahead.digest, task.system)
    except CommandError as failure:
        lines = failure.lines if isinstance(failure, Wrong) else (str(failure),)
        report.refused(lines, last=bool(memory.read(task.system.root).digest))
        raise
    if report.fine() or ahead.actions:
        tell(ahead.card, ahead.facts, report)
    if failed:
        raise failed[0]
    return ahead.actions


def _keep_up(system: System, report: Report) -> list[CommandError]:
    """One that fails keeps no other from being done, and nobody out: keys and settings matter more than room."""
    failed = []
    for action in due(system):
        try:
            keep_up(action, system)
        except CommandError as failure:
            report.note(str(failure))
            failed.append(failure)
    return failed


def tell(card: Card, facts: Facts, report: Report, own: Sequence[str] = ()) -> None:
    """Say what the box is; ``own`` are its addresses, as far as they are known."""
    role = card.role or facts.role
    report.applied(f"This is {card.hostname}, a Tributary {role}.", next_steps(card, facts, own), own)


def tell_again(task: Task, report: Report) -> None:
    """Say it with the addresses that the box has by now, unless the file is not the one that was applied."""
    text, last = content(task.card), memory.read(task.system.root)
    if memory.digest(text, task.role) == last.digest:
        tell(read(text, task.role), look.facts(task.system.root, task.role, last), report, interfaces.own_addresses())
