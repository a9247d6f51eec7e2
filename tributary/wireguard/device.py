"""WireGuard's interfaces in the kernel: made, set, asked, removed.

A kernel without WireGuard gets wireguard-go(1), a process that does the same behind a TUN device; wg(8) talks to both.
"""

import shutil
from collections.abc import Sequence
from ipaddress import IPv6Network
from pathlib import Path

from tributary.process import QUICK, run
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.interface import Interface, PeerStatus, configuration, peer_statuses

_SOCKETS = Path("/var/run/wireguard")
"""Where wireguard-go(1) and wg(8) meet."""
_EACH_PEER = 0.01
"""Seconds more that wg(8) may take for each peer."""


def create(name: str) -> None:
    """A new interface, switched off; raises CommandError, exit 69 if there is no WireGuard, 71 if it is refused."""
    # The kernel loads the module, if it has one.
    done = run(["ip", "link", "add", name, "type", "wireguard"], timeout=QUICK)
    if done.returncode == 0:
        return
    if "Unknown device type" not in done.stderr:
        raise CommandError(Exit.SYSTEM, f"cannot make the interface {name}: {done.stderr.strip()}")
    # It goes into the background when the interface is there.
    if shutil.which("wireguard-go") is None:
        raise CommandError(Exit.UNAVAILABLE, "WireGuard is not in this kernel, and wireguard-go is not installed")
    done = run(["wireguard-go", name], timeout=QUICK)
    if done.returncode:
        raise CommandError(Exit.SYSTEM, f"wireguard-go {name}: {_last(done.stderr)}")


def configure(name: str, interface: Interface) -> None:
    """Give it keys and peers; peers that stay lose nothing. Raises CommandError, exit 71, without any key in its
    text.
    """
    timeout = QUICK + _EACH_PEER * len(interface.peers)
    done = run(["wg", "syncconf", name, "/dev/stdin"], configuration(interface), timeout)
    if done.returncode:
        # wg(8) quotes a line that it does not accept, and that may be the key's; no line is in what the system says.
        _, system, reason = done.stderr.strip().partition("Unable to modify interface")
        raise CommandError(Exit.SYSTEM, f"wg refuses the configuration of {name}{reason if system else ''}")


def set_addresses(name: str, addresses: Sequence[str], mtu: int) -> None:
    """Give it addresses, in the form '10.84.0.17/32', and switch it on; raises CommandError, exit 71."""
    _all(
        *(["ip", "address", "replace", address, "dev", name] for address in addresses),
        ["ip", "link", "set", name, "mtu", str(mtu), "up"],
    )


def add_route(name: str, network: IPv6Network) -> None:
    """Have packets to ``network`` leave by it, which must be switched on; raises CommandError, exit 71."""
    _all(["ip", "-6", "route", "replace", str(network), "dev", name])


def _all(*commands: Sequence[str]) -> None:
    for command in commands:
        done = run(command, timeout=QUICK)
        if done.returncode:
            raise CommandError(Exit.SYSTEM, f"{' '.join(command)}: {done.stderr.strip()}")


def remove_peer(name: str, public_key: str) -> None:
    """Remove a peer: from now on nothing of it is accepted. Raises CommandError, exit 71."""
    done = run(["wg", "set", name, "peer", public_key, "remove"])
    if done.returncode:
        raise CommandError(Exit.SYSTEM, f"wg does not remove a peer of {name}: {done.stderr.strip()}")


def peers(name: str) -> Sequence[PeerStatus]:
    """What it knows of its peers; raises CommandError, exit 69 if there is no such interface."""
    done = run(["wg", "show", name, "dump"])
    if done.returncode:
        raise CommandError(Exit.UNAVAILABLE, f"no WireGuard interface {name}: {done.stderr.strip()}")
    return peer_statuses(done.stdout)


def exists(name: str) -> bool:
    """Whether there is an interface of that name."""
    return run(["ip", "link", "show", "dev", name]).returncode == 0


def remove(name: str) -> None:
    """Take it away; that it is gone is no error. Raises CommandError, exit 71."""
    done = run(["ip", "link", "delete", "dev", name], timeout=QUICK)
    (_SOCKETS / f"{name}.sock").unlink(missing_ok=True)
    if done.returncode and "Cannot find device" not in done.stderr:
        raise CommandError(Exit.SYSTEM, f"cannot remove the interface {name}: {done.stderr.strip()}")


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "ended without a word"
