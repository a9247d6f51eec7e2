"""The gateway's state: its private key, its routers, their totals, and what it changed on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway import counters
from gateway.files import unlink, write_atomic
from tributary.daemons.state_file import StateFile, Tell
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.keys import is_key, new_secret

DIRECTORY = Path("/var/lib/tributary/gateway")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class State:
    """The state folder, which only root can read."""

    folder: Path

    @property
    def routers(self) -> Path:
        """The folder of the routers' files."""
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

    def totals(self, tell: Tell | None = None) -> counters.Totals:
        """The totals of each router.

        A damaged file is renamed and reported; without ``tell`` CommandError is raised, exit 71.
        """
        return self._totals.read(counters.read, tell) or {}

    def save_totals(self, totals: counters.Totals) -> None:
        """Save the totals; raises CommandError, exit 71."""
        self._totals.replace(counters.document(totals))

    @property
    def _totals(self) -> StateFile:
        return StateFile(self.folder / "traffic.json")

    def note_rules(self, text: str) -> None:
        """Save a digest of the rules that were loaded, and of the kernel's listing of them; raises CommandError, exit
        71.
        """
        write_atomic(self._rules, f"{text}\n".encode())

    @property
    def noted_rules(self) -> str:
        """The saved digests; empty without any."""
        try:
            return self._rules.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    @property
    def _rules(self) -> Path:
        return self.folder / "rules-loaded"

    def note_boot(self) -> None:
        """Mark what is saved about forwarding as valid until the next boot; raises CommandError, exit 71."""
        write_atomic(self._boot, _BOOT.read_bytes())

    def forget_boot(self) -> None:
        """Mark it as invalid: nothing is changed any more; raises CommandError, exit 71."""
        unlink(self._boot)

    @property
    def was_noted_since_boot(self) -> bool:
        """Whether what is saved about forwarding was saved since the last boot."""
        return self._boot.exists() and self._boot.read_bytes() == _BOOT.read_bytes()

    def note_forwarding(self, was_on: bool) -> None:
        """Save whether this machine forwarded IPv4 before us; raises CommandError, exit 71."""
        if was_on:
            unlink(self._forwarding)
        else:
            write_atomic(self._forwarding, b"")

    @property
    def forwarding_was_off(self) -> bool:
        """Whether forwarding was off, and is to be restored."""
        return self._forwarding.exists()

    def note_forwarding6(self, hearing: Sequence[str] | None) -> None:
        """Save that IPv6 forwarding was off, and which interfaces were ``hearing`` routers; None: it was on.

        Raises CommandError, exit 71.
        """
        if hearing is None:
            unlink(self._forwarding6)
        else:
            write_atomic(self._forwarding6, "".join(f"{name}\n" for name in hearing).encode())

    @property
    def ra_accepting_interfaces(self) -> Sequence[str] | None:
        """The interfaces that accepted advertisements while IPv6 forwarding was off, to be restored; None: it was
        on.
        """
        return self._forwarding6.read_text(errors="replace").split() if self._forwarding6.exists() else None

    @property
    def switched_on(self) -> Sequence[int]:
        """The IP versions whose forwarding was off before us."""
        off = ((4, self.forwarding_was_off), (6, self.ra_accepting_interfaces is not None))
        return [version for version, was_off in off if was_off]

    @property
    def _boot(self) -> Path:
        return self.folder / "boot-id"

    @property
    def _forwarding6(self) -> Path:
        return self.folder / "ipv6-forwarding-was-off"

    @property
    def _forwarding(self) -> Path:
        return self.folder / "ipv4-forwarding-was-off"
