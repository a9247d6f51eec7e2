"""A Debian 13 of its own, booted by systemd-nspawn(1): systemd, sshd, its own files and network, this machine's kernel.

    admin 10.77.0.1 ------- 10.77.0.2 lan [guest] wan 203.0.113.1 ------- 203.0.113.2 server

Debian's packages that the playbook asks for are in it already, since nothing here leads to an archive of Debian's.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, run
from image.debian import base, here
from tests.ansible.playbooks import needs_ansible
from tests.netns.world import needs
from tributary.paths import CACHE

SUITE = "trixie"
ADMIN, GUEST, OUTSIDE, SERVER = "10.77.0.1", "10.77.0.2", "203.0.113.1", "203.0.113.2"

NEEDED = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    needs("ip", "mmdebstrap", "ssh", "ssh-keygen", "systemd-nspawn", "unshare"),
    needs_ansible,
    # The first time a Debian is made, and the converter built.
    pytest.mark.timeout(1800),
]
"""The marks of tests that boot one."""

_NETWORK = f"""
admin:eth0 {ADMIN}/24 -- guest:lan {GUEST}/24
server:eth0 {SERVER}/24 -- guest:wan {OUTSIDE}/24
"""
_PACKAGES = (
    *("systemd", "systemd-sysv", "systemd-timesyncd", "dbus", "udev"),
    *("openssh-server", "sudo", "python3", "python3-apt"),
    *("iproute2", "libargon2-1", "libnftables1", "logrotate", "mptcpize", "nftables", "prometheus-node-exporter"),
    *("prometheus-squid-exporter", "squid", "unattended-upgrades"),
    # For scripts/gateway-quickstart: the playbook runs in the guest itself, and its kernel is this machine's.
    *("ansible-core", "conntrack", "dnsmasq-base", "python3-qrcode", "wireguard-go", "wireguard-tools"),
)
# systemd 257 knows cgroups of version 2 alone. A machine that has version 1 gives the guest an empty tree of version 2.
_CGROUPS = """
if [ "$(stat --file-system --format=%T /sys/fs/cgroup)" != cgroup2fs ]; then
    umount --recursive /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
fi
exec "$@"
"""
_TIMEOUT = 120.0


@dataclass(frozen=True)
class Guest:
    """The booted Debian in ``root``. ``admin`` may log in, with ``key``; ``server`` is somewhere behind it."""

    root: Path
    admin: Node
    server: Node
    key: Path

    @property
    def ssh_options(self) -> tuple[str, ...]:
        """For those who come as ``admin``, of ssh(1)."""
        known = f"UserKnownHostsFile={self.key.with_name('known_hosts')}"
        return ("-o", known, "-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=10")

    def ask(self, command: str, seconds: float = _TIMEOUT) -> str:
        """What ``command`` prints in the guest within ``seconds``, whatever it ends with."""
        words = [*self.as_admin, "ssh", "-i", str(self.key), *self.ssh_options, f"root@{GUEST}", command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds).stdout.strip()

    @property
    def as_admin(self) -> tuple[str, ...]:
        """What a command that is to run at the administrator's begins with."""
        return ("ip", "netns", "exec", self.admin.namespace)


@contextmanager
def booted(folder: Path) -> Iterator[Guest]:
    """A guest that was never used before, in ``folder``, until the end of the block."""
    root, key = folder / "root", folder / "key"
    with ExitStack() as stack:
        nodes = stack.enter_context(standing_nodes("dp-", _NETWORK, folder))
        stack.callback(shutil.rmtree, root)
        _unpack(root, key)
        guest = Guest(root, nodes["admin"], nodes["server"], key)
        stack.enter_context(_running(root, nodes["guest"].namespace, folder / "console"))
        _wait(guest)
        yield guest


def _unpack(root: Path, key: Path) -> None:
    root.mkdir()
    run(["tar", "--extract", "--file", str(base(CACHE, SUITE, here(), _PACKAGES)), "--directory", str(root)])
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
    for path in ((root / "etc/apt/sources.list"), *(root / "etc/apt/sources.list.d").iterdir()):
        path.unlink(missing_ok=True)


@contextmanager
def _running(root: Path, namespace: str, console: Path) -> Iterator[None]:
    command = ["systemd-nspawn", "--quiet", f"--directory={root}", "--boot", "--register=no", "--keep-unit"]
    command += [f"--machine={namespace}", f"--network-namespace-path=/run/netns/{namespace}", "--capability=all"]
    command += ["--bind=/dev/net/tun"]  # for wireguard-go
    # Its network's parameters are its own; all others are this machine's and stay as they are.
    environment = os.environ | {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
    with console.open("wb") as said:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", _CGROUPS, "sh", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        time.sleep(1)
        process.terminate()  # the second time it ends at once
        process.wait(30)


def _wait(guest: Guest) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while (state := guest.ask("systemctl is-system-running --wait")) != "running":
        failed = guest.ask("systemctl --failed --plain --no-legend")
        assert not failed, failed
        assert time.monotonic() < deadline, f"the guest is {state or 'not to be reached'}"
        time.sleep(1)
