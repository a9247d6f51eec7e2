"""dpkg-deb(1): a folder in, a .deb out.

Not debhelper: its snippets and its dependencies on Python are those of the release that it runs on, so that a package
for Debian 13 would have to be built in a Debian 13, and one for arm64 under emulation. What debhelper would add is in
templates/, short enough to read, and tests/debs installs it for real.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from debs import tree
from debs.package import Inputs, Package
from tributary.settings.errors import CommandError, Exit


def file_name(package: Package, inputs: Inputs) -> str:
    """As Debian's archive names it."""
    return f"{package.name}_{inputs.release.version}_{package.architecture}.deb"


def require_dpkg() -> None:
    """Raise CommandError (69) without dpkg-deb."""
    if shutil.which("dpkg-deb") is None:
        raise CommandError(Exit.UNAVAILABLE, "dpkg-deb is missing: packages are made on Debian or Ubuntu")


def build(package: Package, inputs: Inputs, output: Path) -> Path:
    """Make the package in the folder ``output``; a file that is there already is replaced when the new one is whole."""
    path = output / file_name(package, inputs)
    with tempfile.TemporaryDirectory(dir=output, prefix=".build-deb-") as work:
        folder, partial = Path(work) / "tree", Path(work) / path.name
        folder.mkdir()
        tree.write(package, inputs, folder)
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
