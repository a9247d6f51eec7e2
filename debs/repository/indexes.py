"""What apt reads of a repository before it fetches a package: Packages and Release, as apt-ftparchive(1) makes them."""

import gzip
import lzma
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tributary.settings.errors import CommandError, Exit

_CHECKSUMS = ("-o=APT::FTPArchive::MD5=false", "-o=APT::FTPArchive::SHA1=false")
"""What apt of Debian 12 and newer no longer trusts is left out."""


def packages(repository: Path, suite: str, architecture: str) -> Mapping[str, bytes]:
    """The index of ``pool/SUITE`` for a processor, those that run on all included, by the name of its file."""
    found = _ftparchive(repository, f"--arch={architecture}", "packages", f"pool/{suite}")
    return {
        "Packages": found,
        "Packages.gz": gzip.compress(found, mtime=0),
        "Packages.xz": lzma.compress(found),
    }


def release(folder: Path, fields: Mapping[str, str]) -> bytes:
    """The Release file with ``fields`` and the checksums of the indexes below ``folder``."""
    # Valid-Until is written only beside a ValidTime, the seconds from now on, whose place it then takes.
    options = dict(fields) | ({"ValidTime": "1"} if "Valid-Until" in fields else {})
    given = (f"-o=APT::FTPArchive::Release::{name}={value}" for name, value in options.items())
    return _ftparchive(folder, *given, "release", ".")


def _ftparchive(folder: Path, *arguments: str) -> bytes:
    command = ["apt-ftparchive", "--quiet", "--quiet", *_CHECKSUMS, *arguments]
    environment = os.environ | {"LC_ALL": "C"}
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)
    except (FileNotFoundError, PermissionError) as error:
        raise CommandError(Exit.UNAVAILABLE, "apt-ftparchive is missing: install the package apt-utils") from error
    if done.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"apt-ftparchive: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
