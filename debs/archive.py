"""A package as a folder, whose modes and times are ours whatever the clock says, and as the .deb of dpkg-deb(1).

Not debhelper: its snippets and its dependencies on Python are those of the release that it runs on, so that a package
for Debian 13 would have to be built in a Debian 13, and one for arm64 under emulation. What debhelper would add is in
templates/, short enough to read, and tests/debs installs it for real.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

from debs import render
from debs.content import zipped
from debs.package import File, Inputs, Package
from tributary.settings.errors import CommandError, Exit


def file_name(package: Package, inputs: Inputs) -> str:
    """As Debian's archive names it."""
    return f"{package.name}_{inputs.release.version}_{package.architecture}.deb"


def build(package: Package, inputs: Inputs, output: Path) -> Path:
    """Make the package in the folder ``output``; a file that is there already is replaced when the new one is whole."""
    path = output / file_name(package, inputs)
    with tempfile.TemporaryDirectory(dir=output, prefix=".build-deb-") as work:
        folder, partial = Path(work) / "tree", Path(work) / path.name
        folder.mkdir()
        write(package, inputs, folder)
        _pack(folder, partial, inputs.release.commit.time)
        partial.rename(path)
    return path


def _pack(folder: Path, partial: Path, seconds: int) -> None:
    # root as the owner without being root. xz, since all of Debian's tools read it. One thread: with more of them xz
    # cuts its blocks otherwise, and the bytes would depend on the machine.
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", str(folder), str(partial)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(seconds), "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"dpkg-deb: {done.stderr.strip()}")


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
