"""The packages of a repository: which release each is for, and where it lies in ``pool/``."""

import filecmp
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from debs.release import SUITES
from tributary.settings.errors import CommandError, Exit

_FIELDS = ("Package", "Version", "Architecture")


@dataclass(frozen=True)
class Deb:
    """A package's file, and what it says of itself."""

    file: Path
    name: str
    version: str
    architecture: str

    @property
    def suite(self) -> str:
        """By the end of its version, such as ~deb12; raises CommandError (65) if that names no release that we know."""
        for suite in SUITES.values():
            if self.version.endswith(f"~{suite.mark}"):
                return suite.name
        marks = ", ".join(f"~{suite.mark}" for suite in SUITES.values())
        raise CommandError(Exit.BAD_DATA, f"{self.file}: version {self.version}: accepted: one that ends in {marks}")

    @property
    def place(self) -> str:
        """Its path in a repository. A file's name leaves the version's epoch out (deb-version(7))."""
        version = self.version.rpartition(":")[2]
        return f"pool/{self.suite}/{self.name}_{version}_{self.architecture}.deb"


def below(folder: Path) -> list[Deb]:
    """All packages in ``folder`` and its folders, in order; raises CommandError (65, 66)."""
    found = [read(path) for path in sorted(folder.rglob("*.deb"))]
    if not found:
        raise CommandError(Exit.NO_INPUT, f"{folder}: no packages there: accepted: a folder with .deb files")
    return found


def read(path: Path) -> Deb:
    """A package by its file; raises CommandError (65) if it is none."""
    done = subprocess.run(
        ["dpkg-deb", "--showformat=" + "".join(f"${{{field}}}\n" for field in _FIELDS), "--show", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CommandError(Exit.BAD_DATA, f"{path}: no package: {done.stderr.strip()}")
    return Deb(path, *done.stdout.splitlines())


def arrivals(debs: Iterable[Deb], repository: Path) -> list[Deb]:
    """Those of ``debs`` that the repository does not have yet; raises CommandError (65).

    A version that was published never changes: apt has its checksum, and machines may have it installed.
    """
    new: dict[str, Deb] = {}
    for deb in debs:
        there = new[deb.place].file if deb.place in new else repository / deb.place
        if not there.exists():
            new[deb.place] = deb
        elif not filecmp.cmp(deb.file, there, shallow=False):
            raise CommandError(
                Exit.BAD_DATA, f"{deb.file}: {there} is the same version with other bytes: make a newer one"
            )
    return list(new.values())


def architectures(debs: Sequence[Deb], every: Iterable[str]) -> list[str]:
    """The processors that ``debs`` of one suite are for; ``every`` one, if they run on all."""
    return sorted({deb.architecture for deb in debs} - {"all"}) or sorted(every)
