"""Connections of this machine and those that it forwards: ss(8), conntrack(8)."""

import re
import shutil
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, collapse_addresses, ip_address
from typing import Any

from tributary.kernel.process import output, run
from tributary.kernel.state import Network
from tributary.settings.errors import CommandError
from tributary.settings.ports import Ports


def end_connections(lost: Sequence[Network]) -> str | None:
    """Close this machine's connections with ``lost`` and delete their NAT entries; returns what could not be done.

    Their packets are no longer accepted: without this a socket would wait until its time-out, and a router that gets
    the number later would receive packets of the previous one.
    """
    if not lost:
        return None
    # Those of routers that were enrolled one after the other, as hundreds at once are, become few.
    networks = [*collapse_addresses(_of(4, lost)), *collapse_addresses(_of(6, lost))]
    theirs = ["(", *" or ".join(f"dst {_for_ss(network)}" for network in networks).split(), ")"]
    run(["ss", "--kill", "--no-header", "--tcp", *theirs])
    if shutil.which("conntrack"):
        for network in networks:
            # 1: there was none.
            run(["conntrack", "--delete", "--family", f"ipv{network.version}", "--orig-src", str(network)])
        # Connections from outside to forwarded ports.
        led = forwarded(run(["conntrack", "--dump", "--family", "ipv4", "--dst-nat"]).stdout)
        for target in sorted({address for _, address in led if any(address in network for network in networks)}):
            run(["conntrack", "--delete", "--family", "ipv4", "--reply-src", str(target)])
    # ss is silent where the kernel cannot do it (INET_DIAG_DESTROY). Sockets without a program end by themselves.
    still = ["state", "connected", "exclude", "time-wait", "exclude", "syn-recv"]
    try:
        left = output(["ss", "--no-header", "--tcp", *still, *theirs]).strip()
    except CommandError as failure:
        return f"whether their connections have ended is not known: {failure}"
    if left:
        return "this kernel does not end connections of others (INET_DIAG_DESTROY): theirs end by their own timeouts"
    return None


def flush_stale_dnat(forwards: Sequence[tuple[Ports, IPv4Address]], network: IPv4Network) -> None:
    """Delete DNAT entries from ports of ``forwards`` into ``network`` that have another target than theirs now.

    The kernel translates all packets of a connection as it did the first: a client that continues, such as by UDP from
    the same port, would reach the old address for as long as it continues.
    """
    if not shutil.which("conntrack"):
        return
    for protocol in sorted({ports.protocol for ports, _ in forwards}):
        chosen = ["--family", "ipv4", "--proto", protocol]
        for port, target in sorted(forwarded(run(["conntrack", "--dump", *chosen, "--dst-nat"]).stdout)):
            asked = Ports(protocol, port, port)
            led = next((address for ports, address in forwards if ports.holds(asked)), target)
            if target in network and led != target:
                run(["conntrack", "--delete", *chosen, "--reply-src", str(target), "--orig-port-dst", str(port)])


def forwarded(listing: str) -> set[tuple[int, IPv4Address]]:
    """The port that each connection of conntrack(8)'s ``listing`` began with, and the address that replies. Pure."""
    found = set()
    for line in listing.splitlines():
        # First the original direction, then the reply; other connections have no ports, or one half.
        match = re.search(r" src=\S+ dst=\S+ (?:sport=\d+ )?dport=(\d+) .*?src=(\d+\.\d+\.\d+\.\d+) ", f"{line} ")
        if match:
            found.add((int(match[1]), IPv4Address(match[2])))
    return found


def listener_on(ports: Ports, inside: IPv4Network) -> str | None:
    """The socket of a local program that listens at one of ``ports``, beyond loopback and ``inside``.

    In ss(8)'s form, such as '0.0.0.0:80'. Raises CommandError, exit 69, without ss, and 71 if it fails.
    """
    only = ["sport", ">=", str(ports.first), "and", "sport", "<=", str(ports.last)]
    listening = output(["ss", "--no-header", "--numeric", "--listening", f"--{ports.protocol}", *only])
    for line in listening.splitlines():
        socket = line.split()[3]
        address = _address(socket)
        if not address.is_loopback and address not in inside:
            return socket
    return None


def _address(socket: str) -> IPv4Address | IPv6Address:
    """Of '0.0.0.0:80', '[::1]:80', '*:80', '127.0.0.53%lo:53'."""
    text = socket.rpartition(":")[0].partition("%")[0].strip("[]")
    return IPv6Address("::") if text == "*" else ip_address(text)


def _of(version: int, networks: Sequence[Network]) -> list[Any]:
    return [network for network in networks if network.version == version]


def _for_ss(network: Network) -> str:
    return str(network) if network.version == 4 else f"[{network.network_address}]/{network.prefixlen}"
