"""What WireGuard costs this machine: one TCP connection by a cable, by the kernel's tunnel, and by wireguard-go's.

    sudo python3 tunnel_costs.py                                      a table; --json for programs
    sudo python3 tunnel_costs.py --megabytes 20 --rate 20             a quick one; the second link carries 20 Mbit/s

    [left] ==10.85.0.0/24: veth, frames of 1500 bytes==[right]
           ==10.86.0.0/24: a tunnel over the veth======

Both ends are network namespaces of this machine, so what is counted is what both take together: the time in which its
processors were not idle, whatever else it did meanwhile. The cable hands over one frame after another, as network
interfaces do that do not segment themselves, and receivers put frames together again (GRO). It carries what it can, and
then RATE, by which frames come one by one, and there is less to put together. Last comes the kernel's cipher alone, the
fastest that it has here and the one in plain C, on pieces of 32 kB.

The file needs nothing but Python's standard library, ip(8), tc(8), ethtool(8) and wg(8): copy it to the machine in
question. Exit codes: 64 for arguments, 69 if something is missing, 71 if a command fails.
"""

import argparse
import ctypes
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

LINK, KERNEL, GO = "link", "wireguard", "wireguard-go"
_ENDS = {"left": 1, "right": 2}
_FRAME = 1514
_TUNNEL_MTU = 1420  # wg-quick(8)'s own for Ethernet
_QUEUE = 0.02  # seconds that the cable's queue holds, or a hundred frames
_LIMITED = 5.0  # seconds by a link of a rate, at most
_PORT, _PIECE, _CIPHERED = 5125, 1 << 18, 1 << 15
_DRIVERS = ("rfc7539(chacha20,poly1305)", "rfc7539(chacha20-generic,poly1305-generic)")
_LONGEST = 30.0  # seconds until an interface is there
_CIPHERING = 0.5  # seconds


_USAGE, _UNAVAILABLE, _SYSTEM = 64, 69, 71  # sysexits(3)


class Missing(Exception):
    """Something that this machine does not have."""


class Parser(argparse.ArgumentParser):
    """Ends with exit code 64 where argparse has 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def run(*command: str, given: str = "") -> str:
    """What a command printed; raises CalledProcessError."""
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def namespace(end: str) -> str:
    """The end's, which no other run has."""
    return f"tunnel-costs-{end}-{os.getpid()}"


def on(end: str, command: str, given: str = "") -> str:
    """Run a command there, words apart by blanks."""
    return run("ip", "netns", "exec", namespace(end), *command.split(), given=given)


@contextmanager
def inside(end: str) -> Iterator[None]:
    """What the block opens is the end's (setns(2)); Python before 3.12 has no function for it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path: str) -> None:
        with Path(path).open() as opened:
            if libc.setns(opened.fileno(), 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    with Path("/proc/self/ns/net").open() as before:
        enter(f"/run/netns/{namespace(end)}")
        try:
            yield
        finally:
            enter(f"/proc/self/fd/{before.fileno()}")


@contextmanager
def cable(rate: float | None) -> Iterator[None]:
    """Both namespaces and a link of ``rate`` Mbit/s between them, None for what it can; all is gone at the end."""
    try:
        for end in _ENDS:
            run("ip", "netns", "add", namespace(end))
        left, right = map(namespace, _ENDS)
        run(*f"ip -n {left} link add cable type veth peer name cable netns {right}".split())
        for end, number in _ENDS.items():
            on(end, f"ip address add 10.85.0.{number}/24 dev cable")
            on(end, "ip link set cable up")
            on(end, "ethtool -K cable tso off tx-udp-segmentation off gro on")
            if rate:
                limit = max(100 * _FRAME, int(rate * 1e6 / 8 * _QUEUE))
                on(end, f"tc qdisc add dev cable root tbf rate {rate:g}mbit burst {2 * _FRAME} limit {limit}")
        yield
    finally:
        for end in _ENDS:
            subprocess.run(["ip", "netns", "delete", namespace(end)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def kernel_interfaces(names: dict[str, str]) -> Iterator[None]:
    """The kernel's, one at each end; raises Missing where it has none."""
    for end, name in names.items():
        adding = ["ip", "-n", namespace(end), "link", "add", name, "type", "wireguard"]
        done = subprocess.run(adding, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"this kernel has no WireGuard: {done.stderr.strip()}")
    yield


@contextmanager
def go_interfaces(names: dict[str, str]) -> Iterator[None]:
    """Those of two wireguard-go(1), which end with the block; raises Missing where it is not installed."""
    if not shutil.which("wireguard-go"):
        raise Missing("wireguard-go is not installed")
    started: list[subprocess.Popen[bytes]] = []
    try:
        for end, name in names.items():
            command = ["ip", "netns", "exec", namespace(end), "wireguard-go", "--foreground", name]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for name in names.values():
            _until(Path(f"/run/wireguard/{name}.sock").exists, f"wireguard-go makes no {name}")
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
            process.wait(_LONGEST)


def _until(fact: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _LONGEST
    while not fact():
        if time.monotonic() > deadline:
            raise Missing(f"{otherwise} within {_LONGEST:g} s")
        time.sleep(0.05)


@contextmanager
def tunnel(kind: str) -> Iterator[None]:
    """A tunnel between the ends, by the kernel or by wireguard-go."""
    names = {end: f"{end}{os.getpid()}" for end in _ENDS}
    private = {end: run("wg", "genkey") for end in _ENDS}
    public = {end: run("wg", "pubkey", given=key) for end, key in private.items()}
    with (kernel_interfaces if kind == KERNEL else go_interfaces)(names):
        for (end, number), other in zip(_ENDS.items(), reversed(_ENDS), strict=True):
            peer = f"peer {public[other]} allowed-ips 10.86.0.0/24 endpoint 10.85.0.{_ENDS[other]}:{_PORT}"
            on(end, f"wg set {names[end]} listen-port {_PORT} private-key /dev/stdin {peer}", private[end])
            on(end, f"ip address add 10.86.0.{number}/24 dev {names[end]}")
            on(end, f"ip link set {names[end]} mtu {_TUNNEL_MTU} up")
        yield


def transfer(network: str, size: int) -> tuple[float, float]:
    """Send ``size`` bytes from left to right behind a tenth that does not count; seconds, and those of processors."""
    before = size // 10
    with inside("right"):
        listener = socket.create_server((f"{network}.{_ENDS['right']}", _PORT))
    with inside("left"):
        sending = socket.socket()
    sender = os.fork()
    if not sender:
        _send(sending, listener.getsockname(), before + size)
    try:
        with listener, sending:
            listener.settimeout(_LONGEST)
            connection, _ = listener.accept()
            with connection:
                _receive(connection, before)
                start, spent = time.monotonic(), busy()
                _receive(connection, size)
                return time.monotonic() - start, busy() - spent
    finally:
        with suppress(ProcessLookupError):
            os.kill(sender, signal.SIGKILL)
        os.waitpid(sender, 0)


def _send(sending: socket.socket, address: tuple[str, int], size: int) -> None:
    """The child's part, and its end."""
    sending.connect(address)
    piece = bytes(_PIECE)
    while size > 0:
        size -= sending.send(piece[:size] if size < _PIECE else piece)
    signal.pause()


def _receive(connection: socket.socket, size: int) -> None:
    into = memoryview(bytearray(_PIECE))
    while size > 0:
        came = connection.recv_into(into, min(size, _PIECE))
        if not came:
            raise OSError("the connection ended before all had come")
        size -= came


def busy() -> float:
    """Seconds in which processors of this machine were not idle, together, since some moment (proc_stat(5)).

    By the time they were idle, which is exact; the others are counted by the timer's ticks.
    """
    fields = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    idle, waiting, stolen = (int(fields[place]) for place in (3, 4, 7))
    return (os.cpu_count() or 1) * time.monotonic() - (idle + waiting + stolen) / os.sysconf("SC_CLK_TCK")


def cost(way: str, rate: float | None, size: int) -> dict[str, Any]:
    """Measure one way, over a link of ``rate`` Mbit/s or, with None, what it can: its rate, and the processors' time at
    both ends together; raises Missing.
    """
    if rate:
        size = min(size, int(rate * 1e6 / 8 * _LIMITED))
    with cable(rate):
        if way == LINK:
            seconds, spent = transfer("10.85.0", size)
        else:
            with tunnel(way):
                seconds, spent = transfer("10.86.0", size)
    mbps, per_gigabyte = round(size * 8e-6 / seconds, 2), round(spent / size * 1e9, 3)
    return {"way": way, "link_mbps": rate, "mbps": mbps, "cpu_s_per_gb": per_gigabyte}


def cipher(driver: str) -> dict[str, Any]:
    """The speed of the kernel's ``driver`` of rfc7539(chacha20,poly1305) on one processor, by AF_ALG, and its name as
    in /proc/crypto; raises Missing.
    """
    try:
        with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) as algorithm:
            algorithm.bind(("aead", driver))
            algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, bytes(range(32)))
            algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_AEAD_AUTHSIZE, None, 16)
            operations, _ = algorithm.accept()
    except OSError as error:
        raise Missing(f"this kernel shows no {driver}: {error.strerror}") from error
    piece, done, start = bytes(_CIPHERED), 0, time.monotonic()
    with operations:
        while (took := time.monotonic() - start) < _CIPHERING:
            operations.sendmsg_afalg([piece], op=socket.ALG_OP_ENCRYPT, iv=bytes(12), assoclen=0)
            done += len(operations.recv(_CIPHERED + 16)) - 16
    return {"driver": _driver(driver), "mb_per_s": round(done / took / 1e6, 1)}


def _driver(name: str) -> str:
    """What the kernel took for ``name``: the one of the highest priority."""
    entries = [
        dict(line.split(maxsplit=2)[::2] for line in entry.splitlines() if line.count(":") == 1)
        for entry in Path("/proc/crypto").read_text().split("\n\n")
    ]
    fitting = [each for each in entries if name in (each.get("name"), each.get("driver"))]
    return max(fitting, key=lambda each: int(each["priority"]))["driver"]


def measured(size: int, rate: float) -> dict[str, Any]:
    """All, with what is missing told on standard error."""
    tries: dict[str, list[Callable[[], dict[str, Any]]]] = {
        "costs": [partial(cost, way, each, size) for each in (None, rate) for way in (LINK, KERNEL, GO)],
        "ciphers": [partial(cipher, driver) for driver in _DRIVERS],
    }
    found: dict[str, list[dict[str, Any]]] = {what: [] for what in tries}
    for what, each in ((what, each) for what, some in tries.items() for each in some):
        try:
            found[what].append(each())
        except Missing as missing:
            print(f"left out: {missing}", file=sys.stderr)
    return {"machine": platform.machine(), "kernel": platform.release(), "processors": os.cpu_count(), **found}


def table(found: dict[str, Any]) -> str:
    """For people to read."""
    lines = [f"{found['machine']}, Linux {found['kernel']}, {found['processors']} processors"]
    lines += [f"{'way':14}{'link, Mbit/s':>14}{'Mbit/s':>12}{'processor seconds for 1 GB':>30}"]
    for each in found["costs"]:
        lines.append(
            f"{each['way']:14}{each['link_mbps'] or 'what it can':>14}{each['mbps']:12.1f}{each['cpu_s_per_gb']:30.2f}"
        )
    lines += [f"{each['driver']}: {each['mb_per_s']:g} MB/s" for each in found["ciphers"]]
    return "\n".join(lines)


def main() -> int:
    """Measure as the command line says; returns the exit code."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="that each way carries at most (default: 200)")
    parser.add_argument("--rate", type=float, default=50, metavar="MBIT", help="of the second link (default: 50)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.megabytes < 1 or not 1 <= arguments.rate <= 1000:
        parser.error("--megabytes is 1 or more, --rate between 1 and 1000")
    if lacking := [name for name in ("ip", "tc", "ethtool", "wg") if not shutil.which(name)]:
        print(f"not installed: {', '.join(lacking)} (apt install iproute2 ethtool wireguard-tools)", file=sys.stderr)
        return _UNAVAILABLE
    try:
        found = measured(arguments.megabytes * 1_000_000, arguments.rate)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"tunnel_costs: {error}", file=sys.stderr)
        return _SYSTEM
    print(json.dumps(found, indent=2) if arguments.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
