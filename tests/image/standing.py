"""A PC that stands for the length of a block: QEMU, cables that end in network namespaces, and a person who logs in.

A cable is a tap device: its end here is an interface of a namespace, the other one is plugged into the PC.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.node import Node
from tests.image.machine import ASIDE, PC, Medium, disk

_TUNSETIFF = 0x400454CA  # linux/if_tun.h, as are the next two
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_FIRST_SLOT = 3
"""The first network card is called ens3, the next one ens4 (systemd.net-naming-scheme(7))."""
FIRST_START = 900.0
"""Seconds until somebody can log in; an emulated processor that shares ours with others takes one or two hundred."""
_LOG_IN = (
    *("ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10"),
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes"),
    # Further commands go by the connection that the first one made.
    *("-o", "ControlMaster=auto", "-o", "ControlPersist=yes"),
)


@dataclass(frozen=True)
class Cable:
    """From the PC's next network card, which has the address ``mac``, to ``name`` in ``node``."""

    node: Node
    name: str
    mac: str

    def lay(self) -> int:
        """Make the end in the node, switched on; returns the file that the PC's end is. It lasts as long as that."""
        with self.node.entered():
            file = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", self.name.encode(), _IFF_TAP | _IFF_NO_PI))
        self.node.ip("link", "set", self.name, "up")
        return file


@dataclass(frozen=True)
class Standing:
    """A PC that runs; its files are in ``folder``."""

    folder: Path

    def plug(self, card: str, *, into: bool) -> None:
        """Plug a cable into the ``card``, such as ens3, or pull it: the PC sees its carrier come or go."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(10)
            monitor.connect(str(self.folder / "monitor"))
            _read_prompt(monitor)
            monitor.sendall(f"set_link {card} {'on' if into else 'off'}\n".encode())
            _read_prompt(monitor)


def _read_prompt(monitor: socket.socket) -> None:
    said = b""
    while not said.endswith(b"(qemu) "):
        said += monitor.recv(4096)


@contextmanager
def standing_pc(medium: Medium, cables: Sequence[Cable]) -> Iterator[Standing]:
    """Boot ``medium``; what it said by its serial console is shown if a test fails."""
    folder = medium.path.parent
    files = [cable.lay() for cable in cables]
    command = [*ASIDE, *PC, *disk(medium), "-display", "none", "-serial", "file:serial"]
    command += ["-monitor", "unix:monitor,server=on,wait=off"]
    for slot, (cable, file) in enumerate(zip(cables, files, strict=True), start=_FIRST_SLOT):
        card = f"ens{slot}"
        command += ["-netdev", f"tap,id=cable{slot},fd={file}"]
        command += ["-device", f"virtio-net-pci,netdev=cable{slot},id={card},mac={cable.mac},addr={slot:#x}"]
    with (folder / "qemu").open("w") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, pass_fds=files
        )
    for file in files:
        os.close(file)
    try:
        yield Standing(folder)
    finally:
        process.kill()
        process.wait()
        for name in ("qemu", "serial"):
            sys.stdout.write(f"\n--- {name} in {folder}\n{(folder / name).read_text(errors='replace')[-20_000:]}")


@dataclass(frozen=True)
class Login:
    """A person at ``node`` who logs in at ``address`` by the ``key``."""

    node: Node
    address: str
    key: Path

    def tries(self, command: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run ``command`` there, whatever comes of it."""
        path = self.key.with_name(f"{self.node.namespace}.ssh")
        words = [*_LOG_IN, "-i", str(self.key), "-o", f"ControlPath={path}", f"tributary@{self.address}", command]
        whole, nothing = self.node.command(words), subprocess.DEVNULL
        return subprocess.run(whole, stdin=nothing, capture_output=True, text=True, timeout=seconds, check=False)

    def run(self, command: str, seconds: float = 120) -> str:
        """What ``command`` printed there, which must end well."""
        done = self.tries(command, seconds)
        assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def wait(self) -> None:
        """Until the box lets its owner in."""
        deadline = time.monotonic() + FIRST_START
        while (done := self.tries("true")).returncode != 0:
            assert time.monotonic() < deadline, f"nobody can log in after {FIRST_START:g} s: {done.stderr}"
            time.sleep(1)
