"""Packages of some hundred bytes, and a key, with which a repository is made in a second."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from debs.release import SUITES

NAMES = ("dummy-native", "dummy-all")


def deb(folder: Path, name: str, version: str, architecture: str) -> Path:
    """A package in ``folder`` with one file, in which its version is."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    document = tree / f"usr/share/doc/{name}/version"
    document.parent.mkdir(parents=True)
    document.write_text(f"{version}\n")
    fields = {"Package": name, "Version": version, "Architecture": architecture, "Description": "a dummy"}
    fields |= {"Maintainer": "Nobody <nobody@example.net>"}
    (tree / "DEBIAN/control").write_text("".join(f"{field}: {value}\n" for field, value in fields.items()))
    path = folder / f"{name}_{version}_{architecture}.deb"
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1795280493"}
    building = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(path)]
    subprocess.run(building, check=True, capture_output=True, env=environment)
    shutil.rmtree(tree)
    return path


def packages(folder: Path, version: str = "1.0", suites: tuple[str, ...] = tuple(SUITES)) -> Path:
    """In the new ``folder``, for each suite, one package for each of two processors, and one for all."""
    folder.mkdir()
    for suite in suites:
        full = f"{version}-1~{SUITES[suite].mark}"
        for architecture in ("amd64", "arm64"):
            deb(folder, "dummy-native", full, architecture)
        deb(folder, "dummy-all", full, "all")
    return folder


class Keyring:
    """A keyring of gpg(1) in the folder ``home``."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def gpg(self, *arguments: str) -> str:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--no-tty", "--pinentry-mode=loopback"]
        command += arguments
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def new(self, name: str, made: int | None = None, expires: str = "never", passphrase: str = "") -> str:
        """A new key; its fingerprint. ``made`` is when, in seconds since 1970."""
        time = [f"--faked-system-time={made}"] if made else []
        user = f"{name} <{name}@example.net>"
        self.gpg(*time, "--passphrase", passphrase, "--quick-generate-key", user, "ed25519", "sign", expires)
        listed = self.gpg("--with-colons", "--list-secret-keys", f"={user}")
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    def exported(self, fingerprint: str, file: Path, passphrase: str = "") -> Path:
        """The secret key in ``file``, which only its owner may read."""
        file.touch(0o600)
        file.write_text(self.gpg("--passphrase", passphrase, "--armor", "--export-secret-keys", fingerprint))
        return file


@contextmanager
def keyring() -> Iterator[Keyring]:
    """An empty one; its path is short, for the sockets of gpg-agent(1)."""
    with TemporaryDirectory(prefix="keyring-") as folder:
        try:
            yield Keyring(Path(folder))
        finally:
            subprocess.run(["gpgconf", "--homedir", folder, "--kill", "all"], check=True)
