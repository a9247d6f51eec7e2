"""What a plan consists of: actions as data, each with a line that says what it does. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

PUBLIC, PRIVATE, PROGRAM = 0o644, 0o600, 0o755
"""Of files; the second kind's contents are nobody's business."""

_HIDDEN = "(not shown)"


@dataclass(frozen=True)
class Owner:
    """Numbers of a user and a group."""

    user: int
    group: int


ROOT = Owner(0, 0)


class _Shown:
    """Has a line that says what it does, with its fields."""

    line: ClassVar[str]

    def __str__(self) -> str:
        return self.line.format_map(vars(self))


@dataclass(frozen=True)
class MakeFolder(_Shown):
    """A folder with this mode and owner, made if it is not there."""

    line = "folder {path} (mode {mode:04o}, owner {owner.user}:{owner.group})"
    path: str
    mode: int
    owner: Owner = ROOT


@dataclass(frozen=True)
class WriteFile(_Shown):
    """A file with this text, in place of what was there."""

    line = "write {path} (mode {mode:04o}, owner {owner.user}:{owner.group})"
    path: str
    text: str
    mode: int = PUBLIC
    owner: Owner = ROOT


@dataclass(frozen=True)
class RemoveFile(_Shown):
    """No file there; that there was none is no error."""

    line = "remove {path}"
    path: str


@dataclass(frozen=True)
class SetPassword:
    """The hash by which ``user`` logs in; None locks, and leaves what is locked already as it is."""

    user: str
    hashed: str | None

    def __str__(self) -> str:
        return f"password of {self.user}: {'set' if self.hashed else 'locked'}"


@dataclass(frozen=True)
class SetHostname(_Shown):
    """The running kernel's name, which was read from /etc/hostname before this program ran."""

    line = "hostname {name}"
    name: str


@dataclass(frozen=True)
class EnableUnit(_Shown):
    """A unit starts now, with the new files, and at every boot; ``gently`` by a reload if it runs.

    One that runs is left alone where it has named what it reads, and nothing of that is new.
    """

    line = "enable {unit}"
    unit: str
    gently: bool = False
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class DisableUnit(_Shown):
    """A unit ends now, and starts at no boot."""

    line = "disable {unit}"
    unit: str


@dataclass(frozen=True)
class MakeHostKeys(_Shown):
    """SSH's host keys of those kinds that have none (ssh-keygen -A)."""

    line = "make SSH host keys"


@dataclass(frozen=True)
class GrowPartition(_Shown):
    """Partition ``number`` of ``disk`` takes all that is free behind it (growpart(1): GPT and MBR)."""

    line = "grow partition {number} of {disk}"
    disk: str
    number: int


@dataclass(frozen=True)
class GrowFileSystem(_Shown):
    """The ext4 file system on ``device``, which is mounted, fills it (resize2fs(8))."""

    line = "grow the file system on {device}"
    device: str


OnFiles = MakeFolder | WriteFile | RemoveFile | SetPassword
OnMachine = SetHostname | EnableUnit | DisableUnit
Action = OnFiles | OnMachine
Upkeep = MakeHostKeys | GrowPartition | GrowFileSystem


def lines(action: Action | Upkeep, *, secrets: bool = False) -> Iterator[str]:
    """The action's line, and below it, indented, the text of a file that is for everybody, or any with ``secrets``."""
    yield str(action)
    if isinstance(action, WriteFile):
        yield from (f"    {line}".rstrip() for line in _told(action, secrets).splitlines())


def facts(action: Action | Upkeep) -> dict[str, Any]:
    """The same for a program: the action's name and what it has, without secrets."""
    told = asdict(action)
    if isinstance(action, WriteFile):
        told["text"] = _told(action, secrets=False)
    elif isinstance(action, SetPassword):
        told["hashed"] = _HIDDEN if action.hashed else None
    return {"action": type(action).__name__, **told}


def _told(action: WriteFile, secrets: bool) -> str:
    return action.text if secrets or action.mode & 0o004 else _HIDDEN
