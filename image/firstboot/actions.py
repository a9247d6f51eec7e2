"""What a plan consists of: actions as data, each with a line that says what it does. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

PUBLIC, PRIVATE, PROGRAM = 0o644, 0o600, 0o755
"""Of files; the second kind's contents are nobody's business."""


_HIDDEN = "(not shown)"


@dataclass(frozen=True)
class Owner:
    """Numbers of a user and a group."""

    user: int
    group: int


ROOT = Owner(0, 0)


@dataclass(frozen=True)
class MakeFolder:
    """A folder with this mode and owner, made if it is not there."""

    path: str
    mode: int
    owner: Owner = ROOT

    def __str__(self) -> str:
        return f"folder {self.path} {_whose(self.mode, self.owner)}"


@dataclass(frozen=True)
class WriteFile:
    """A file with this text, in place of what was there."""

    path: str
    text: str
    mode: int = PUBLIC
    owner: Owner = ROOT

    def __str__(self) -> str:
        return f"write {self.path} {_whose(self.mode, self.owner)}"


@dataclass(frozen=True)
class RemoveFile:
    """No file there; that there was none is no error."""

    path: str

    def __str__(self) -> str:
        return f"remove {self.path}"


@dataclass(frozen=True)
class SetPassword:
    """The hash by which ``user`` logs in; None locks, and leaves what is locked already as it is."""

    user: str
    hashed: str | None

    def __str__(self) -> str:
        return f"password of {self.user}: {'set' if self.hashed else 'locked'}"


@dataclass(frozen=True)
class SetHostname:
    """The running kernel's name, which was read from /etc/hostname before this program ran."""

    name: str

    def __str__(self) -> str:
        return f"hostname {self.name}"


@dataclass(frozen=True)
class EnableUnit:
    """A unit starts now, with the new files, and at every boot; ``gently`` by a reload if it runs.

    One that runs is left alone where it has named what it reads, and nothing of that is new.
    """

    unit: str
    gently: bool = False
    reads: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"enable {self.unit}"


@dataclass(frozen=True)
class DisableUnit:
    """A unit ends now, and starts at no boot."""

    unit: str

    def __str__(self) -> str:
        return f"disable {self.unit}"


@dataclass(frozen=True)
class MakeHostKeys:
    """SSH's host keys of those kinds that have none (ssh-keygen -A)."""

    def __str__(self) -> str:
        return "make SSH host keys"


@dataclass(frozen=True)
class GrowPartition:
    """Partition ``number`` of ``disk`` takes all that is free behind it (growpart(1): GPT and MBR)."""

    disk: str
    number: int

    def __str__(self) -> str:
        return f"grow partition {self.number} of {self.disk}"


@dataclass(frozen=True)
class GrowFileSystem:
    """The ext4 file system on ``device``, which is mounted, fills it (resize2fs(8))."""

    device: str

    def __str__(self) -> str:
        return f"grow the file system on {self.device}"


OnFiles = MakeFolder | WriteFile | RemoveFile | SetPassword
OnMachine = SetHostname | EnableUnit | DisableUnit
Action = OnFiles | OnMachine
Upkeep = MakeHostKeys | GrowPartition | GrowFileSystem


def _whose(mode: int, owner: Owner) -> str:
    return f"(mode {mode:04o}, owner {owner.user}:{owner.group})"


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
