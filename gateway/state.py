"""What the gateway keeps: its private key, its routers, what it counted of them, what it changed of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway import tally
from gateway.files import unlink, written
from tributary.daemons.state_file import StateFile, Tell
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.keys import is_key, new_secret

DIRECTORY = Path("/var/lib/tributary/gateway")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class State:
    """The folder of all of it, for root's eyes alone."""

    folder: Path

    @property
    def routers(self) -> Path:
        """The folder of the routers' files."""
        return self.folder / "routers"

    def private_key(self) -> str:
        """The gateway's own, made at first use; raises CommandError, exit 71 or 77."""
        file = self.folder / "private.key"
        try:
            kept = file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            key = new_secret()
            written(file, f"{key}\n".encode())
            return key
        except PermissionError as error:
            raise CommandError(Exit.NO_PERMISSION, f"{file}: can be read by root alone: use sudo") from error
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(Exit.SYSTEM, f"{file}: cannot be read: {error}") from error
        if not is_key(kept):
            mend = "put the copy of it back, or remove it and enrol every router anew"
            raise CommandError(Exit.SYSTEM, f"{file}: holds no key: {mend}")
        return kept

    def tallies(self, tell: Tell | None = None) -> tally.Tallies:
        """What was counted of each router.

        A file that is not ours is set aside and told; without ``tell`` CommandError is raised, exit 71.
        """
        return self._tallies.read(tally.read, tell) or {}

    def keep(self, tallies: tally.Tallies) -> None:
        """For the next look; raises CommandError, exit 71."""
        self._tallies.replace(tally.document(tallies))

    @property
    def _tallies(self) -> StateFile:
        return StateFile(self.folder / "tallies.json")

    def note_rules(self, text: str) -> None:
        """Which rules were loaded last, and as what the kernel shows them; raises CommandError, exit 71."""
        written(self._rules, f"{text}\n".encode())

    @property
    def noted_rules(self) -> str:
        """As they were noted; nothing if they were not."""
        try:
            return self._rules.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    @property
    def _rules(self) -> Path:
        return self.folder / "rules-loaded"

    def note_boot(self) -> None:
        """That what is noted about forwarding counts until this machine starts anew; raises CommandError, exit 71."""
        written(self._boot, _BOOT.read_bytes())

    def forget_boot(self) -> None:
        """That nothing is changed any more; raises CommandError, exit 71."""
        unlink(self._boot)

    @property
    def was_noted_since_boot(self) -> bool:
        """Whether what is noted about forwarding was noted since this machine started."""
        return self._boot.exists() and self._boot.read_bytes() == _BOOT.read_bytes()

    def note_forwarding(self, was_on: bool) -> None:
        """Whether this machine passed packets on before us; raises CommandError, exit 71."""
        if was_on:
            unlink(self._forwarding)
        else:
            written(self._forwarding, b"")

    @property
    def forwarding_was_off(self) -> bool:
        """Whether that is to be put back."""
        return self._forwarding.exists()

    def note_forwarding6(self, hearing: Sequence[str] | None) -> None:
        """That this machine passed no IPv6 on before us, and which interfaces were ``hearing`` routers; None: it did.

        Raises CommandError, exit 71.
        """
        if hearing is None:
            unlink(self._forwarding6)
        else:
            written(self._forwarding6, "".join(f"{name}\n" for name in hearing).encode())

    @property
    def hearing_routers(self) -> Sequence[str] | None:
        """Where router advertisements were heard when forwarding of IPv6 was off, to be put back; None: it was on."""
        return self._forwarding6.read_text(errors="replace").split() if self._forwarding6.exists() else None

    @property
    def switched_on(self) -> Sequence[int]:
        """The IP versions of which this machine passed nothing on before us."""
        off = ((4, self.forwarding_was_off), (6, self.hearing_routers is not None))
        return [version for version, was_off in off if was_off]

    @property
    def _boot(self) -> Path:
        return self.folder / "noted-in-boot"

    @property
    def _forwarding6(self) -> Path:
        return self.folder / "forwarding6-was-off"

    @property
    def _forwarding(self) -> Path:
        return self.folder / "forwarding-was-off"
