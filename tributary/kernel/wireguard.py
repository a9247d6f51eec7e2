"""Creates, configures, reads and removes WireGuard interfaces.

Without WireGuard in the kernel, wireguard-go(1) does the same with a TUN device; wg(8) configures both.
"""

import json
import shutil
from collections.abc import Sequence
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

from tributary.kernel.process import QUICK, output, run
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.interface import Interface, PeerStatus, configuration, peer_statuses

_SOCKETS = Path("/var/run/wireguard")
"""Sockets of wireguard-go(1) for wg(8)."""
_EACH_PEER = 0.01
"""Additional seconds for wg(8) per peer."""


def create(name: str) -> None:
    """Create an interface, which is down; raises CommandError, exit 69 if there is no WireGuard, 71 if that fails."""
    # The kernel loads the module, if it has one.
    done = run(["ip", "link", "add", name, "type", "wireguard"], timeout=QUICK)
    if done.returncode == 0:
        return
    if "Unknown device type" not in done.stderr:
        raise CommandError(Exit.SYSTEM, f"cannot make the interface {name}: {done.stderr.strip()}")
    # It goes into the background once the interface exists.
    if shutil.which("wireguard-go") is None:
        raise CommandError(Exit.UNAVAILABLE, "WireGuard is not in this kernel, and wireguard-go is not installed")
    output(["wireguard-go", name], timeout=QUICK)


def configure(name: str, interface: Interface) -> None:
    """Set keys and peers; those there keep their sessions. Raises CommandError, exit 71, with no key in its text."""
    timeout = QUICK + _EACH_PEER * len(interface.peers)
    done = run(["wg", "syncconf", name, "/dev/stdin"], configuration(interface), timeout)
    if done.returncode:
        # wg(8) quotes a line that it refuses, which may be the key's; the system's error has no line.
        _, system, reason = done.stderr.strip().partition("Unable to modify interface")
        raise CommandError(Exit.SYSTEM, f"wg refuses the configuration of {name}{reason if system else ''}")


def set_addresses(name: str, addresses: Sequence[str], mtu: int) -> None:
    """Set addresses such as '10.84.0.17/32' in place of its others, and bring it up; raises CommandError, exit 71."""
    _add_addresses(name, addresses)
    if others := [each for each in _global(_shown(name)) if each not in addresses]:
        # nft's masquerade takes the first address, and the other end drops packets from one of an earlier gateway.
        for address in others:
            output(["ip", "address", "delete", address, "dev", name], timeout=QUICK)
        # With the first address of a network the kernel removes the others of it (devinet.c, promote_secondaries).
        _add_addresses(name, addresses)
    output(["ip", "link", "set", name, "mtu", str(mtu), "up"], timeout=QUICK)


def is_set_up(name: str, addresses: Sequence[str], mtu: int, port: int) -> bool:
    """Whether it is up, with these addresses, and has this MTU and UDP port; raises CommandError, exit 71."""
    found = _shown(name)
    at = output(["wg", "show", name, "listen-port"], timeout=QUICK).strip()
    return "UP" in found["flags"] and set(addresses) <= set(_global(found)) and (found["mtu"], at) == (mtu, str(port))


def _add_addresses(name: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        output(["ip", "address", "replace", address, "dev", name], timeout=QUICK)


def _shown(name: str) -> dict[str, Any]:
    try:
        (found,) = json.loads(output(["ip", "-json", "address", "show", "dev", name], timeout=QUICK))
        return dict(found)
    except ValueError as error:  # ip(8) shows none of an interface that goes while it looks
        raise CommandError(Exit.SYSTEM, f"ip shows no interface {name}") from error


def _global(shown: dict[str, Any]) -> list[str]:
    """Its addresses of that scope, in the form '10.84.0.17/32'."""
    return [f"{each['local']}/{each['prefixlen']}" for each in shown["addr_info"] if each["scope"] == "global"]


def add_route(name: str, network: IPv6Network) -> None:
    """Route ``network`` to the interface, which must be up; raises CommandError, exit 71."""
    output(["ip", "-6", "route", "replace", str(network), "dev", name], timeout=QUICK)


def has_route(name: str, network: IPv6Network) -> bool:
    """Whether ``network`` is routed to the interface; raises CommandError, exit 71."""
    return bool(output(["ip", "-6", "route", "show", str(network), "dev", name], timeout=QUICK).strip())


def peers(name: str) -> Sequence[PeerStatus]:
    """The status of its peers; raises CommandError, exit 69 if there is no such interface."""
    done = run(["wg", "show", name, "dump"])
    if done.returncode:
        raise CommandError(Exit.UNAVAILABLE, f"no WireGuard interface {name}: {done.stderr.strip()}")
    return peer_statuses(done.stdout)


def exists(name: str) -> bool:
    """Whether there is an interface of that name."""
    return run(["ip", "link", "show", "dev", name]).returncode == 0


def remove(name: str) -> None:
    """Remove it; a missing one is no error. Raises CommandError, exit 71."""
    done = run(["ip", "link", "delete", "dev", name], timeout=QUICK)
    (_SOCKETS / f"{name}.sock").unlink(missing_ok=True)
    if done.returncode and "Cannot find device" not in done.stderr:
        raise CommandError(Exit.SYSTEM, f"cannot remove the interface {name}: {done.stderr.strip()}")
