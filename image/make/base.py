"""The first half of an image: Debian's packages alone, made by mmdebstrap(1), the same for every version of ours."""

import os
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from image.debian import bootstrapping
from image.make import foreign, lock
from image.make.boards import SUITE, Board, Role
from image.make.command import Runner
from image.make.texts import COMPONENTS, MIRRORS
from tributary.settings.errors import CommandError, Exit, refused

_STATUS = "var/lib/dpkg/status"
_EXCLUDED = ("/usr/share/locale/*", "/usr/share/doc/*/changelog*")
_FRESH = 24 * 60 * 60  # seconds
# The initramfs once, at the end, and not by the kernel's package, then by each one that has a hook: under emulation it
# takes minutes (/etc/kernel/postinst.d/initramfs-tools).
_ENVIRONMENT = {"INITRD": "No", "DEBIAN_FRONTEND": "noninteractive"}


@dataclass(frozen=True)
class Base:
    """Debian for a board in a role. ``lock_path`` has the versions that every image is tested with.

    ``strict``: only those will do. Otherwise Debian's newest are taken.
    """

    board: Board
    role: Role
    lock_path: Path
    strict: bool = False

    @property
    def image(self) -> str:
        return self.board.kind(self.role)

    def sources(self) -> tuple[str, ...]:
        """All that its packages depend on."""
        command = self._bootstrapping(Path("TARGET"))
        locked = lock.text({self.image: self._locks().get(self.image, {})})
        return (*command, locked, *["locked"] * self.strict)

    def locked(self) -> dict[str, str]:
        """Versions by package; raises CommandError (66) if there is no lock yet."""
        locks = self._locks()
        if self.image not in locks:
            raise CommandError(Exit.NO_INPUT, f"{self.lock_path}: has no {self.image}: --update-lock writes it")
        return locks[self.image]

    def _locks(self) -> dict[str, dict[str, str]]:
        with refused(Exit.NO_INPUT, self.lock_path, "cannot be read"):
            text = self.lock_path.read_text() if self.lock_path.exists() else ""
        return lock.parse(text, str(self.lock_path))

    def make(self, target: Path, runner: Runner) -> None:
        """Make it in the tar file ``target``; if ``strict``, raises CommandError (1) where Debian has other versions by
        now.

        What was made then is kept for the next --update-lock.
        """
        self._bootstrap(target, runner)
        if self.strict and (lines := self.differences(target)):
            target.rename(self._unlocked(target.parent))
            raise CommandError(
                Exit.WRONG_RESULT, f"{lock.told(lines, self.lock_path.name)}\naccepted: a build without --locked"
            )

    def differences(self, made: Path) -> list[str]:
        """A line for each package of the base ``made`` that is not as it is locked."""
        return lock.differences(self.locked(), versions(made))

    def update_lock(self, cache: Path, runner: Runner) -> Path:
        """Write the lock anew by what Debian has today; returns the tar file that was made for that."""
        unlocked = self._unlocked(cache)
        if not unlocked.exists() or time.time() - unlocked.stat().st_mtime > _FRESH:
            partial = cache / f".base-{self.image}.{os.getpid()}.tar"
            self._bootstrap(partial, runner)
            partial.rename(unlocked)
        self.lock_path.write_text(lock.text(self._locks() | {self.image: versions(unlocked)}))
        return unlocked

    def _unlocked(self, cache: Path) -> Path:
        return cache / f"unlocked-{self.image}.tar"

    def _bootstrap(self, target: Path, runner: Runner) -> None:
        with TemporaryDirectory(dir=target.parent, prefix=f"{target.stem}.") as work:
            # Another user unpacks the packages there (_apt).
            Path(work).chmod(0o755)
            with foreign.runnable(self.board.architecture):
                runner.run(self._bootstrapping(target), {**_ENVIRONMENT, "TMPDIR": work})

    def _bootstrapping(self, target: Path) -> list[str]:
        """With the lists of packages, so that what follows needs no network."""
        options = [
            "--skip=cleanup/apt/lists",
            "--aptopt=Acquire::Languages none",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={path}" for path in _EXCLUDED),
            "--dpkgopt=path-include=/usr/share/locale/locale.alias",
        ]
        sources = [f"deb {address} {suite} {COMPONENTS}" for address, suites in MIRRORS for suite in suites.split()]
        packages = ",".join(self.board.all_packages(self.role))
        return bootstrapping(SUITE, self.board.architecture, packages, target, options, sources)


def versions(tar: Path) -> dict[str, str]:
    """What is installed in the base ``tar``; raises CommandError (71) if it is none."""
    try:
        with tarfile.open(tar) as archive:
            for member in archive:
                if member.name.removeprefix("./") == _STATUS and (file := archive.extractfile(member)):
                    return lock.installed(file.read().decode())
    except (OSError, tarfile.TarError) as error:
        raise CommandError(Exit.SYSTEM, f"{tar}: cannot be read: {error}") from error
    raise CommandError(Exit.SYSTEM, f"{tar}: has no {_STATUS}")
