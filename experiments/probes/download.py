"""Downloads a URL over TCP or MPTCP and tells what came by which subflow, as the kernel counts it.

One JSON object a line: a sample at short intervals, as long as bytes come, then the result.

    sample  {"at": SECONDS, "bytes": BODY, "subflows": [{"local", "remote", "received"}], "wire": {INTERFACE: BYTES},
             "waiting": BYTES or null}
    result  the same, with "started" (Unix time), "status", and "sha256" of the body, as far as it came

"received" counts payload bytes of the subflow, "wire" all bytes of frames that came in by the interface. "waiting" is
the memory that the socket takes for what came out of order (SK_MEMINFO_RMEM_ALLOC): the mean since the sample before of
the times when all that is in order had been read, null if there was none. On SIGTERM the download breaks off, without a
result.
"""

import argparse
import fcntl
import hashlib
import json
import signal
import socket
import sys
import termios
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from experiments.probes.ending import break_off
from experiments.probes.http import Request, read_body, read_head
from experiments.probes.subflows import subflows_of

_SO_MEMINFO = 55  # asm-generic/socket.h


def main() -> None:
    """Download as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Request.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="break the download off after these")
    parser.add_argument("--every", type=float, default=0.1, metavar="SECONDS", help="between samples (default: 0.1)")
    parser.add_argument("--interface", action="append", default=[], help="count the bytes of this interface as well")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with Request.of_arguments(arguments).send() as connection:
        whole = False
        try:
            whole = _receive(connection, arguments)
        finally:
            if not whole:
                break_off(connection)


def _receive(connection: socket.socket, arguments: argparse.Namespace) -> bool:
    """Whether the whole body came."""
    start = time.monotonic()
    started = time.time()
    before = {name: _wire_bytes(name) for name in arguments.interface}

    def sample() -> dict[str, object]:
        wire = {name: _wire_bytes(name) - before[name] for name in before}
        subflows = [asdict(subflow) for subflow in subflows_of(connection)]
        known = {"at": round(time.monotonic() - start, 6), "bytes": received, "subflows": subflows, "wire": wire}
        told = known | {"waiting": fmean(waiting) if waiting else None}
        waiting.clear()
        return told

    status, length, body = read_head(connection)
    digest, waiting = hashlib.sha256(body), list[int]()
    next_sample = start
    received = len(body)
    for chunk in read_body(connection, length - len(body)):
        digest.update(chunk)
        received += len(chunk)
        if not _unread(connection):
            waiting.append(_waiting(connection))
        now = time.monotonic()
        if now >= next_sample:
            next_sample = now + arguments.every
            _print(sample())
        if now >= start + arguments.seconds:
            break
    result = {"started": started, "status": status, "sha256": digest.hexdigest()}
    _print(sample() | result)
    return received == length


def _unread(connection: socket.socket) -> int:
    return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)


def _waiting(connection: socket.socket) -> int:
    # linux/sock_diag.h: numbers of 32 bits, SK_MEMINFO_RMEM_ALLOC the first.
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4), sys.byteorder)


def _wire_bytes(interface: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics/rx_bytes").read_text())


def _print(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
