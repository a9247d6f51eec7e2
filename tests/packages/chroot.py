"""A Debian to install packages into, as a folder. Nothing is started in it, and its network has no way out."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.cache import CACHE
from image.debian import base, here

# What our packages depend on, so that dpkg alone can install them; and who looks at them.
_PACKAGES = (
    *("cloud-guest-utils", "iproute2", "libnftables1", "man-db", "mptcpize", "nftables", "openssh-server", "python3"),
    *("squid", "sudo", "systemd", "systemd-resolved", "udev", "wpasupplicant"),
)
_JUDGES = {"trixie": ("lintian",)}
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
}
# Namespaces of its own, gone with the command: what is mounted for it never shows outside.
_INSIDE = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'

# dpkg's own records and logs, caches that anybody may remove, and what lies in memory on a running machine.
_NOT_COUNTED = (
    "var/lib/dpkg",
    "var/log/dpkg.log",
    "var/log/alternatives.log",
    "var/cache",
    "dev",
    "proc",
    "run",
    "tmp",
)


@dataclass(frozen=True)
class Chroot:
    """The folder of an unpacked Debian."""

    root: Path

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``command`` in it; what it says is in the exception, if it fails."""
        namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        done = subprocess.run(
            [*namespaces, "sh", "-c", _INSIDE, str(self.root), *command],
            env=_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def install(self, packages: list[Path]) -> None:
        """Install the .deb files."""
        for package in packages:
            shutil.copy(package, self.root / "tmp")
        self.run("dpkg", "--install", *(f"/tmp/{package.name}" for package in packages))

    def files(self) -> set[str]:
        """The paths of all that lies in it, without what packages do not answer for."""
        found = set()
        for place, folders, names in os.walk(self.root):
            inside = Path(place).relative_to(self.root)
            folders[:] = [name for name in folders if not str(inside / name).startswith(_NOT_COUNTED)]
            found |= {str(inside / name) for name in (*folders, *names)}
        return {path for path in found if not path.startswith(_NOT_COUNTED)}


@contextmanager
def unpacked(suite: str, folder: Path) -> Iterator[Chroot]:
    """A fresh Debian ``suite`` in ``folder``, gone afterwards."""
    root = folder / suite
    root.mkdir()
    try:
        tar = base(CACHE, suite, here(), (*_PACKAGES, *_JUDGES.get(suite, ())))
        subprocess.run(["tar", "-xf", tar, "-C", root], check=True)
        yield Chroot(root)
    finally:
        shutil.rmtree(root)
