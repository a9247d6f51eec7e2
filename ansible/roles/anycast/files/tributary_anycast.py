#!/usr/bin/python3 -ISB
"""Announces this node's share of the gateways' address while its proxies answer, and withdraws it for maintenance.

BIRD announces what its protocols anycast* have; this program switches those on and off, and does nothing else.

    tributary-anycast run --http ADDRESS:PORT...   watch until stopped
    tributary-anycast drain                        withdraw this node until `announce`, also over a restart
    tributary-anycast drain --wait 60 --port 3128  the same, and wait up to a minute for connections at that port to end
    tributary-anycast announce                     take part again, once the proxies answer
    tributary-anycast status                       announced, or not

With --reason, drain says why, and announce ends only a drain of that reason: a playbook does not end yours.

exit codes: 0 done; 1 status, announce: this node is not announced; 64 wrong arguments; 69 BIRD or ss does not answer
"""

import argparse
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

DRAINED = Path("/var/lib/tributary/anycast/drained")
STATUS = Path("/run/tributary-anycast/status.json")  # for `tributary status` and the console
_PROTOCOLS = '"anycast*"'
_BY_HAND = "maintenance"
_ANNOUNCE_TIMEOUT = 30.0  # seconds for `announce`
_TIMEOUT = 2.0  # seconds for an answer
# Refused by every proxy of ours (403), and so answered without anybody else's help.
_QUESTION = b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Silent(Exception):
    """A program that is asked does not answer; one line says which."""


@dataclass(frozen=True)
class Health:
    """What is thought of the proxies: well from their first answer on, until ``most`` looks in a row have failed."""

    most: int
    failed: int = 0
    well: bool = False

    def after(self, answered: bool) -> "Health":
        """The opinion after one more look."""
        if answered:
            return replace(self, failed=0, well=True)
        failed = self.failed + 1
        return replace(self, failed=failed, well=self.well and failed < self.most)


def is_up(printed: str) -> bool:
    """Whether ``birdc show protocols`` has printed protocols, all of which are up."""
    states = [words[3] for words in map(str.split, printed.splitlines()) if words and words[0].startswith("anycast")]
    return bool(states) and all(state == "up" for state in states)


def answers(address: str, port: int) -> bool:
    """Whether something speaks HTTP there."""
    try:
        with socket.create_connection((address, port), _TIMEOUT) as connection:
            connection.sendall(_QUESTION)
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False


def bird(command: str) -> str:
    """What BIRD says to ``command`` about its protocols of ours; raises Silent."""
    return _printed(["birdc", command, _PROTOCOLS])


def _printed(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Silent(f"{command[0]} does not answer: {error}") from error
    if done.returncode != 0:
        raise Silent(f"{command[0]} does not answer: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def announced() -> bool:
    """Whether this node is announced now."""
    return is_up(bird("show protocols"))


def settle(wanted: bool) -> bool:
    """Switch the announcement on or off if it is not so already; returns whether something was changed."""
    if announced() == wanted:
        return False
    bird("enable" if wanted else "disable")
    return True


def watch(proxies: Sequence[tuple[str, int]], most: int, interval: float) -> NoReturn:
    """Look, judge, settle, for ever."""
    health = Health(most)
    while True:
        health = health.after(all(answers(*proxy) for proxy in proxies))
        reason = drained()
        wanted = health.well and reason is None
        now: bool | None = wanted
        try:
            if settle(wanted):
                print(_said(wanted, reason), flush=True)
        except Silent as error:
            now = None
            print(error, file=sys.stderr, flush=True)
        write_status({"time": time.time(), "announced": now, "drained": reason, "answers": health.well})
        time.sleep(interval)


def write_status(status: Mapping[str, object]) -> None:
    """Replace the file, for readers that are there at any time."""
    try:
        new = STATUS.with_suffix(".new")
        new.write_text(json.dumps(status))
        new.chmod(0o644)
        new.replace(STATUS)
    except OSError as error:
        print(f"{STATUS}: cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def _said(wanted: bool, reason: str | None) -> str:
    if wanted:
        return "announced: its proxies answer"
    return f"withdrawn: drained ({reason})" if reason else "withdrawn: a proxy does not answer"


def drained() -> str | None:
    """Why this node was drained; None if it was not."""
    try:
        return DRAINED.read_text().strip() or _BY_HAND
    except FileNotFoundError:
        return None


def drain(reason: str, ports: Sequence[int], timeout: float) -> int:
    """Withdraw now, and stay so; wait for connections at ``ports`` for ``timeout`` seconds."""
    if drained() is None:
        DRAINED.write_text(f"{reason}\n")
    bird("disable")
    print("withdrawn")
    deadline = time.monotonic() + timeout
    while ports and (left := connections(ports)):
        if time.monotonic() > deadline:
            print(f"{left} connections have not ended in {timeout:.0f} s")
            break
        time.sleep(1)
    return 0


def connections(ports: Sequence[int]) -> int:
    """Connections at this machine's ``ports``, those of Multipath TCP once for all of their subflows; raises Silent."""
    at = " or ".join(f"sport = :{port}" for port in ports)
    return len(set(map(session, _printed(["ss", "-HOtni", "state", "established", f"( {at} )"]).splitlines())))


def session(printed: str) -> str:
    """What a line of ``ss -O -i`` has in common with those of the same connection: its own token, if it has one."""
    token = re.search(r" token:\w+\(id:\d+\)/(\w+)\(", printed)
    return token[1] if token else printed


def announce(reason: str | None) -> int:
    """Take part again, if it was drained for ``reason``; waits for the watch to see that all is well."""
    found = drained()
    if found is not None and reason not in (None, found):
        print(f"stays withdrawn: drained ({found})")
        return 0
    DRAINED.unlink(missing_ok=True)
    deadline = time.monotonic() + _ANNOUNCE_TIMEOUT
    while not announced():
        if time.monotonic() > deadline:
            print(
                f"not announced after {_ANNOUNCE_TIMEOUT:.0f} s: journalctl -u tributary-anycast says why",
                file=sys.stderr,
            )
            return 1
        time.sleep(0.5)
    print("announced")
    return 0


def status() -> int:
    """Say whether this node is announced."""
    up = announced()
    print("announced" if up else "withdrawn")
    return 0 if up else 1


def withdraw() -> int:
    """Withdraw until the watch looks again."""
    bird("disable")
    return 0


def main(words: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    arguments = _arguments().parse_args(words)
    try:
        return int(arguments.act(arguments))
    except Silent as error:
        print(f"tributary-anycast: {error}", file=sys.stderr)
        return 69


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(64, f"{self.prog}: {message}\n")


def _arguments() -> argparse.ArgumentParser:
    arguments = _Arguments(
        prog="tributary-anycast", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run")
    run.add_argument("--http", type=_place, action="append", required=True, metavar="ADDRESS:PORT")
    run.add_argument("--failures", type=int, default=2, metavar="NUMBER")
    run.add_argument("--interval", type=float, default=2.0, metavar="SECONDS")
    run.set_defaults(act=lambda given: watch(given.http, given.failures, given.interval))
    leave = commands.add_parser("drain")
    leave.add_argument("--reason", default=_BY_HAND)
    leave.add_argument("--port", type=int, action="append", default=[], metavar="PORT")
    leave.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    leave.set_defaults(act=lambda given: drain(given.reason, given.port, given.wait))
    join = commands.add_parser("announce")
    join.add_argument("--reason")
    join.set_defaults(act=lambda given: announce(given.reason))
    commands.add_parser("status").set_defaults(act=lambda _: status())
    commands.add_parser("withdraw").set_defaults(act=lambda _: withdraw())
    return arguments


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
