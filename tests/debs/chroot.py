"""A Debian or Ubuntu to install packages into: a folder. Nothing is started in it; its network has no way out."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from image.debian import INSIDE, base, here
from tests.debs.layers import Layer, layer
from tests.debs.ubuntu import sources
from tributary.paths import CACHE

# What our packages depend on, so that dpkg alone can install them; and who looks at them.
_PACKAGES = (
    *("cloud-guest-utils", "conntrack", "dnsmasq-base", "iproute2", "libargon2-1", "libnftables1", "man-db"),
    *("mptcpize", "nftables", "openssh-server", "python3", "squid", "sudo", "systemd", "systemd-resolved", "udev"),
    *("wireguard-tools", "wpasupplicant"),
)
_JUDGES = {"trixie": ("lintian",)}
_ENVIRONMENT = {**INSIDE, "DEBIAN_FRONTEND": "noninteractive"}
# Namespaces of its own, gone with the command. Loopback is up, as on every machine: else Squid knows no IPv6.
_INSIDE = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && ip link set lo up && exec chroot "$0" "$@"'

# dpkg's own records and logs, caches that anybody may remove, what lies in memory on a running machine, and a home: no
# package touches those (Scapy keeps caches in the one of who runs it).
_NOT_COUNTED = (
    "var/lib/dpkg",
    "var/log/dpkg.log",
    "var/log/alternatives.log",
    "var/cache",
    "dev",
    "proc",
    "root",
    "run",
    "tmp",
    "usr/share/python3/debpython/__pycache__",  # of py3clean(1), which packages call
)


@dataclass(frozen=True)
class Chroot:
    """An unpacked Debian beneath a layer that takes what is changed."""

    layer: Layer

    @property
    def root(self) -> Path:
        """Its folder."""
        return self.layer.root

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``command`` in it; what it says is in the exception, if it fails."""
        namespaces = [*self.layer.entering, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        done = subprocess.run(
            [*namespaces, "sh", "-c", _INSIDE, str(self.layer.place), *command],
            env=_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def install(self, packages: Sequence[Path]) -> None:
        """Install the .deb files."""
        self.run("dpkg", "--install", *self.take(packages))

    def take(self, files: Sequence[Path]) -> list[str]:
        """Copy ``files`` into it; the paths that they have there."""
        for file in files:
            shutil.copy(file, self.root / "tmp")
        return [f"/tmp/{file.name}" for file in files]

    def files(self) -> set[str]:
        """The paths of all that lies in it, without what packages do not answer for."""
        found = set()
        for place, folders, names in os.walk(self.root):
            inside = Path(place).relative_to(self.root)
            folders[:] = [name for name in folders if not str(inside / name).startswith(_NOT_COUNTED)]
            found |= {str(inside / name) for name in (*folders, *names)}
        return {path for path in found if not path.startswith(_NOT_COUNTED)}

    @contextmanager
    def copy(self, folder: Path) -> Iterator["Chroot"]:
        """The same again, to be changed: what this one is stays."""
        with layer(self.layer, folder) as above:
            yield Chroot(above)


@contextmanager
def unpacked(suite: str, folder: Path) -> Iterator[Chroot]:
    """A fresh ``suite`` in ``folder``, gone afterwards."""
    root = folder / "unpacked"
    root.mkdir()
    try:
        subprocess.run(["tar", "-xf", _tar(suite), "-C", root], check=True)
        with layer(root, folder / "layer") as only:
            yield Chroot(only)
    finally:
        shutil.rmtree(root)


def _tar(suite: str) -> Path:
    packages = (*_PACKAGES, *_JUDGES.get(suite, ()))
    return base(CACHE, suite, here(), packages, sources(suite) if suite == "noble" else ())
