"""What the tests in this folder work with: keys, a repository made as a person makes it, and an apt in its own root."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from debs.__main__ import main
from tests.debs import dummies
from tests.refusals import command_error
from tributary.settings.errors import Exit

SUITE, DATE = "trixie", 1_795_280_493  # 2026-11-21 17:01:33 UTC
LONG_AGO = 1_600_000_000


@dataclass(frozen=True)
class Keys:
    """Two keys of one keyring, made long ago, and the first of them in a file."""

    keyring: dummies.Keyring
    one: str
    other: str
    file: Path


def publish(repository: Path, packages: Path, key: str | Path, *more: str, url: str | None = None) -> None:
    where = url or f"file:{repository}"
    words = ["--repository", str(repository), "--packages", str(packages), "--key", str(key), "--url", where]
    assert main([*words, *more]) == 0


def contents(folder: Path) -> dict[str, bytes]:
    """All files by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sources_of(repository: Path) -> Path:
    """What a machine of ``SUITE`` needs."""
    return repository / "dists" / SUITE / "tributary.sources"


def refused(tmp_path: Path, packages: Path, key: str | Path, code: Exit, said: str) -> None:
    """build-deb takes no such key or no such packages, and has written nothing."""
    with command_error(code, said):
        publish(tmp_path / "repository", packages, key)
    assert not (tmp_path / "repository").exists()


class Apt:
    """apt of this machine with settings, lists, caches, keys and a dpkg database of its own, all empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc/apt/sources.list.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        # Read first (apt.conf(5)): what this machine says in /etc/apt does not count.
        (root / "apt.conf").write_text(f"""\
Dir "{root}";
Dir::State::status "{root}/status";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
""")

    def add(self, sources: Path) -> None:
        """As docs/packages.md tells a user."""
        shutil.copy(sources, self.root / "etc/apt/sources.list.d/tributary.sources")

    def get(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"APT_CONFIG": str(self.root / "apt.conf"), "LC_ALL": "C"}
        command = ["apt-get", *words]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False, env=environment)

    def refusal(self) -> str:
        """What `apt-get update` says, which must fail."""
        done = self.get("update", "--error-on=any")
        assert done.returncode == 100
        return done.stderr
