"""Debian systems in folders: made once by mmdebstrap(1) and kept as tar files in the cache, entered by chroot(8)."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

_PREFIX = "unpacked-"
_COMPONENTS = "main,non-free-firmware"
INSIDE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
"""The environment of what runs in a root."""

# Mounts and processes of their own, and no network: all of it ends with the command, also by SIGKILL, and what is
# missing in the root cannot come from elsewhere.
_NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-ec")
_MOUNTS = 'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"'


def around(root: Path, command: Sequence[str], mounts: str = ":") -> list[str]:
    """``command`` of this machine while ``root`` has what programs in there need, and what the script ``mounts`` adds
    below ``$0``.

    The first process stays outside of the root: by that ischroot(1) tells packages such as procps that the kernel, and
    its parameters, are this machine's.
    """
    return [*_NAMESPACES, f'{_MOUNTS}; {mounts}; "$@"; exit', str(root), *command]


@dataclass(frozen=True)
class System:
    """A Debian in the folder ``root``, whose programs can run."""

    root: Path

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run ``command`` inside, without network, its output shown; raises CommandError (exit 71) if it fails."""
        entering = around(self.root, ["chroot", str(self.root), *command])
        code = subprocess.run(entering, env={**INSIDE, **(environment or {})}, check=False).returncode
        if code != 0:
            raise CommandError(Exit.SYSTEM, f"{' '.join(command)} failed with {code}: see above")

    def path(self, inside: str) -> Path:
        """Where the absolute path ``inside`` is on this machine."""
        return self.root / inside.lstrip("/")


def here() -> str:
    """Debian's name for this machine's processor."""
    return process.output(["dpkg", "--print-architecture"]).strip()


def base(cache: Path, suite: str, architecture: str, packages: Sequence[str], sources: Sequence[str] = ()) -> Path:
    """A Debian of ``suite`` with ``packages`` as a tar file: from the cache, or made now.

    ``architecture`` is one of Debian's; others may follow it, with commas, for packages such as ``libssl-dev:arm64``.
    ``sources`` are lines of sources.list(5), for what is not in Debian's archive.
    Raises CommandError: exit 69 without mmdebstrap, exit 71 if it fails.
    """
    chosen = ",".join(packages)
    key = hashlib.sha256("\n".join([chosen, *sources]).encode()).hexdigest()[:16]
    path = cache / "debian" / f"{suite}-{architecture}-{key}.tar"
    if not path.exists():
        process.require("mmdebstrap")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tar")
        try:
            command = bootstrapping(suite, architecture, chosen, partial, sources=sources)
            if subprocess.run(command, check=False).returncode != 0:
                raise CommandError(Exit.SYSTEM, f"mmdebstrap made no system {suite} for {architecture}: see above")
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def bootstrapping(
    suite: str, architecture: str, packages: str, target: Path, options: Sequence[str] = (), sources: Sequence[str] = ()
) -> list[str]:
    """The command that makes a Debian in the tar file ``target``; ``sources`` are lines of sources.list(5)."""
    given = ["--variant=apt", f"--architectures={architecture}", f"--components={_COMPONENTS}", *options]
    return ["mmdebstrap", *given, f"--include={packages}", suite, str(target), *sources]


@contextmanager
def unpacked(tar: Path, parent: Path) -> Iterator[System]:
    """The system in ``tar`` in a folder below ``parent``, for the length of the block.

    The folder's name has our process in it: what a killed one left is found by that and removed.
    """
    _forget_the_killed(parent)
    with TemporaryDirectory(dir=parent, prefix=f"{_PREFIX}{os.getpid()}.") as folder:
        root = Path(folder)
        subprocess.run(["tar", "--extract", "--file", tar, "--directory", root], check=True)
        yield System(root)


def _forget_the_killed(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*.*"):
        process = folder.name.removeprefix(_PREFIX).partition(".")[0]
        if not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)
