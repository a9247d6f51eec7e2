"""A package as a folder that dpkg-deb packs: modes and times are ours, whatever the umask and the clock say."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

from debs import render
from debs.content import zipped
from debs.package import File, Inputs, Package
from tributary.settings.errors import CommandError, Exit


def write(package: Package, inputs: Inputs, folder: Path) -> None:
    """Fill the new ``folder`` with the package's files and its control files."""
    files = complete(package, inputs)
    for file in (*files, *_control(package, inputs, files)):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    _settle(folder, inputs.release.commit.time)


def complete(package: Package, inputs: Inputs) -> list[File]:
    """The package's files and what every package has, by path; raises CommandError (71) if two are one."""
    documents = f"usr/share/doc/{package.name}"
    files = [
        *package.files,
        File(f"{documents}/changelog.Debian.gz", zipped(render.changelog(package, inputs.release).encode())),
        File(f"{documents}/copyright", render.copyright_file(package, inputs).encode()),
    ]
    files.sort(key=lambda file: file.path)
    for one, next_one in pairwise(files):
        if one.path == next_one.path:
            raise CommandError(Exit.SYSTEM, f"{package.name}: {one.path}: two files of this name")
    return files


def _control(package: Package, inputs: Inputs, files: Sequence[File]) -> Iterator[File]:
    kibibytes = installed_size(files)
    yield File("DEBIAN/control", render.control(package, inputs.release, kibibytes).encode())
    yield File("DEBIAN/md5sums", md5sums(package, files).encode())
    if package.conffiles:
        yield File("DEBIAN/conffiles", "".join(f"/{path}\n" for path in package.conffiles).encode())
    for name in render.SCRIPTS:
        text = render.script(package, name)
        if text:
            yield File(f"DEBIAN/{name}", text.encode(), 0o755)


def installed_size(files: Iterable[File]) -> int:
    """KiB, as dpkg-gencontrol(1) counts: each file rounded up, and one for each folder."""
    listed = list(files)
    folders = {parent for file in listed for parent in PurePosixPath(file.path).parents}
    return len(folders) + sum(-(-len(file.content) // 1024) for file in listed)


def md5sums(package: Package, files: Iterable[File]) -> str:
    """What dpkg --verify compares (deb-md5sums(5)); conffiles are dpkg's own concern."""
    return "".join(
        f"{hashlib.md5(file.content, usedforsecurity=False).hexdigest()}  {file.path}\n"
        for file in files
        if file.path not in package.conffiles
    )


def _settle(folder: Path, seconds: int) -> None:
    """Folders' modes, and everybody's time: from the innermost to the outermost."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(Path(place) / name, (seconds, seconds))
        Path(place).chmod(0o755)
        os.utime(place, (seconds, seconds))
