"""Whole files by MPTCP, both ways at once, a connection each; both ends compare every byte that came.

    python -m experiments.probes.integrity serve ADDRESS PORT PAIRS SIZE         prints ready; ends with SIGTERM
    python -m experiments.probes.integrity send ADDRESS PORT PAIRS SIZE COUNT    COUNT transfers, then one JSON object:

    {"transfers": COUNT, "failed": {REASON: COUNT, ...}, "waits": COUNT, "seconds": SECONDS,
     "wrong": [{"direction": "up", "sent": BYTES, "got": BYTES, "first": BYTE, "end": BYTE, "shift": BYTES,
                "mapping": [FIRST, LENGTH], "acknowledged": BYTE}, ...]}

PAIRS ports from PORT on have one connection at a time each. Bytes from ``first`` up to ``end`` hold those of the file
that are ``shift`` further on; without ``shift`` they are in the file nowhere. ``mapping`` and ``acknowledged`` are what
the server, which accepts the second subflow, saw on the wire (experiments/probes/mappings.py), and explain the shift:
it is the one less the other. A wait is one of 190 ms or more until something came. Needs nothing but Python and root.
"""

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from experiments.probes.mappings import explanation, opened, segment, taken

_WAIT, _HUNG = 0.19, 30.0  # seconds
_READ, _LONGEST_WRITE = 1 << 16, (1 << 16) - 1
_BLOCK = 256  # bytes compared at once, to find a wrong one
_ENDS = ("up", "down")


def file(direction: str, size: int) -> bytes:
    """The same on both ends."""
    return random.Random(direction).randbytes(size)


def difference(sent: bytes, got: bytes | bytearray) -> dict[str, Any]:
    """Where ``got`` is not what was ``sent``, as a wrong transfer has it above; empty where they are equal."""
    if sent == got:
        return {}
    found = {"sent": len(sent), "got": len(got)}
    size = min(len(sent), len(got))
    blocks = [range(at, min(at + _BLOCK, size)) for at in range(0, size, _BLOCK)]
    unequal = [each for each in blocks if sent[each.start : each.stop] != got[each.start : each.stop]]
    if not unequal:
        return found
    wrong = [at for at in (*unequal[0], *unequal[-1]) if sent[at] != got[at]]
    first, end = wrong[0], wrong[-1] + 1
    return found | {"first": first, "end": end} | _shift(sent, got[first:end], first)


def _shift(sent: bytes, piece: bytes | bytearray, first: int) -> dict[str, int]:
    """All of the ``piece`` lies in ``sent`` as a whole, or it was not displaced."""
    at = sent.find(piece)
    return {"shift": at - first} if at >= 0 else {}


@dataclass
class Half:
    """What came to one end of a connection."""

    got: bytearray = field(default_factory=bytearray)
    waits: int = 0

    def receive(self, connection: socket.socket, wanted: int) -> None:
        """So many bytes, or until the end; raises OSError."""
        while len(self.got) < wanted:
            asked = time.monotonic()
            if not (piece := connection.recv(min(_READ, wanted - len(self.got)))):
                return
            self.waits += time.monotonic() - asked >= _WAIT
            self.got += piece


@contextmanager
def sending(connection: socket.socket, content: bytes) -> Iterator[None]:
    """Beside the block, in writes of any length; they have ended when it has. A failure shows at the other end."""
    thread = threading.Thread(target=_send, args=(connection, content))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _send(connection: socket.socket, content: bytes) -> None:
    view, at = memoryview(content), 0
    try:
        while at < len(view):
            at += connection.send(view[at : at + random.randint(1, _LONGEST_WRITE)])
    except OSError:
        connection.close()


def serve(address: str, port: int, pairs: int, size: int) -> None:
    """Take connections until killed; after the file each is told what was found, on one line."""
    listeners = [_listener(address, port + number) for number in range(pairs)]
    print("ready", flush=True)
    threads = [threading.Thread(target=_serve, args=(each, size)) for each in listeners]
    for thread in threads:
        thread.start()


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(8)
    return listener


def _serve(listener: socket.socket, size: int) -> None:
    files = {each: file(each, size) for each in _ENDS}
    port = listener.getsockname()[1]
    wire = opened(port)
    while True:
        connection, _ = listener.accept()
        with connection, suppress(OSError):  # whoever sent nothing more gets no answer, and counts it as failed
            connection.settimeout(_HUNG)
            half = Half()
            with sending(connection, files["down"]):
                half.receive(connection, size)
            packets = list(taken(wire))
            found = difference(files["up"], half.got)
            if found:
                found |= {"direction": "up"} | explanation([segment(each, port) for each in packets], found)
            connection.sendall(json.dumps({"wrong": found, "waits": half.waits}).encode())


@dataclass
class Sum:
    """What all transfers gave."""

    transfers: int = 0
    waits: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[Mapping[str, Any]] = field(default_factory=list)

    def transfer(self, address: str, port: int, files: Mapping[str, bytes]) -> None:
        self.transfers += 1
        try:
            half, told = _transfer(address, port, files)
        except (OSError, ValueError) as error:
            self.failed[str(error)] += 1
            return
        self.waits += half.waits + told["waits"]
        here = difference(files["down"], half.got)
        self.wrong += [each for each in (told["wrong"], here and here | {"direction": "down"}) if each]


def _transfer(address: str, port: int, files: Mapping[str, bytes]) -> tuple[Half, Any]:
    half = Half()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
        connection.settimeout(_HUNG)
        connection.connect((address, port))
        with sending(connection, files["up"]):
            half.receive(connection, len(files["down"]))
        told = b"".join(iter(lambda: connection.recv(_READ), b""))
    return half, json.loads(told)


def send(address: str, port: int, pairs: int, size: int, transfers: int) -> Sum:
    """So many, one after the other to each port."""
    files = {each: file(each, size) for each in _ENDS}
    total, numbers = Sum(), count()

    def work(number: int) -> None:
        while next(numbers) < transfers:
            total.transfer(address, port + number, files)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(pairs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total


def main(role: str, address: str, *numbers: str) -> None:
    """One end."""
    if role == "serve":
        port, pairs, size = map(int, numbers)
        serve(address, port, pairs, size)
        return
    port, pairs, size, transfers = map(int, numbers)
    began = time.monotonic()
    total = send(address, port, pairs, size, transfers)
    print(json.dumps(vars(total) | {"seconds": round(time.monotonic() - began, 3)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
