"""The gateway's state: its private key, its routers, their totals, and what it changed on this machine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway.counters import Totals, TrafficTotals
from tributary.daemons import directories
from tributary.daemons.state_file import StateFile, Tell, document_of, write_atomic
from tributary.kernel import sysctl
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.keys import is_key, new_secret

DIRECTORY = Path("/var/lib/tributary/gateway")
_TRY_AGAIN = 0.05


@dataclass(frozen=True)
class Changes:
    """What the gateway has changed on this machine, to be restored by ``down``; a reboot restores all of it.

    IPv6 forwarding was off if interfaces were ``hearing`` routers' advertisements then, None if it was on. ``rules`` is
    a digest of the rules that were loaded, and of the kernel's listing of them. ``tracking`` are the former values of
    settings for tracked connections, by their names, and ``tracked`` those that they got instead. ``interface`` is the
    name of the one that was created; empty if that is not known. ``boot`` is that of the changes.
    """

    is_noted: bool
    ipv4_was_off: bool
    hearing: Sequence[str] | None
    rules: str
    boot: str | None = field(compare=False)
    tracking: Mapping[str, int] = field(default_factory=dict)
    tracked: Mapping[str, int] = field(default_factory=dict)
    interface: str = ""

    @property
    def switched_on(self) -> Sequence[int]:
        """The IP versions whose forwarding was off before."""
        return [version for version, was_off in ((4, self.ipv4_was_off), (6, self.hearing is not None)) if was_off]


UNCHANGED = Changes(False, False, None, "", None)
_READ_TOTALS, _READ_CHANGES = document_of(dict[str, TrafficTotals]), document_of(Changes)


@dataclass(frozen=True)
class State:
    """The state folder, which only root can read."""

    folder: Path

    @contextmanager
    def locked(self, within: float | None = None) -> Iterator[None]:
        """Hold the lock on the folder, for which other commands wait, or no longer than ``within`` seconds.

        Raises CommandError, exit 71, or 75 if another one has it for longer.
        """
        with ExitStack() as stack:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._enter_lock(stack, within)
            except BlockingIOError as error:
                line = "another command changes the routers now: try again"
                raise CommandError(Exit.IN_USE, f"{self.folder}: {line}") from error
            except OSError as error:
                raise CommandError(Exit.SYSTEM, f"{self.folder}: cannot be written: {error.strerror}") from error
            yield

    def _enter_lock(self, stack: ExitStack, within: float | None) -> None:
        deadline = time.monotonic() + (within or 0)
        while True:
            try:
                stack.enter_context(directories.lock_file(self.folder / "gateway.lock", wait=within is None))
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_TRY_AGAIN)

    @property
    def routers(self) -> Path:
        return self.folder / "routers"

    def private_key(self) -> str:
        """The gateway's key, created at first use; raises CommandError, exit 71 or 77."""
        file = self.folder / "private.key"
        try:
            kept = file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            key = new_secret()
            write_atomic(file, f"{key}\n".encode())
            return key
        except PermissionError as error:
            raise CommandError(Exit.NO_PERMISSION, f"{file}: can be read by root alone: use sudo") from error
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(Exit.SYSTEM, f"{file}: cannot be read: {error}") from error
        if not is_key(kept):
            fix = "put the copy of it back, or remove it and enrol all routers again"
            raise CommandError(Exit.SYSTEM, f"{file}: holds no key: {fix}")
        return kept

    def totals(self, tell: Tell | None = None) -> Totals:
        """The totals of each router.

        A damaged file is renamed and reported; without ``tell`` CommandError is raised, exit 71.
        """
        return self._totals.read(_READ_TOTALS, tell) or {}

    def save_totals(self, totals: Totals) -> None:
        """Save the totals; raises CommandError, exit 71."""
        self._totals.replace(totals)

    @property
    def _totals(self) -> StateFile:
        return StateFile(self.folder / "traffic.json")

    @property
    def changes(self) -> Changes:
        """What ``up`` has changed since the last boot. A damaged file counts as missing (``set_damaged_aside``)."""
        try:
            noted = self._file.read(_READ_CHANGES)
        except CommandError:
            return UNCHANGED
        return noted if noted and noted.boot == _boot() else UNCHANGED

    def set_damaged_aside(self) -> list[str]:
        """Rename the file of ``changes`` if it is damaged; returns what is lost by that."""
        notes: list[str] = []
        self._file.read(_READ_CHANGES, notes.append)
        return [f"{note}: what `up` has changed here before stays until a reboot" for note in notes]

    def note(self, changes: Changes) -> None:
        """Save them; raises CommandError, exit 71."""
        self._file.replace(replace(changes, boot=_boot()))

    def forget(self) -> None:
        """Nothing is changed any more; raises CommandError, exit 71."""
        self._file.remove()

    @property
    def _file(self) -> StateFile:
        return StateFile(self.folder / "changes.json")


def _boot() -> str | None:
    return sysctl.read("kernel/random/boot_id")
