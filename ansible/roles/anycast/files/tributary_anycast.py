#!/usr/bin/python3 -ISB
"""Announces this node's share of the gateways' address while its proxies answer, and withdraws it for maintenance.

BIRD announces what its protocols anycast* have; this program switches those on and off.

    tributary-anycast run --http ADDRESS:PORT...   watch until stopped
    tributary-anycast drain                        withdraw this node until `announce`, also over a restart
    tributary-anycast drain --wait 60 --port 3128  the same, and wait up to a minute for connections at that port to end
    tributary-anycast announce                     take part again, once the proxies answer
    tributary-anycast status                       announced, or not
    tributary-anycast addresses --own ADDRESS...   what the unit of the addresses does

With --reason, drain says why, and announce ends only a drain of that reason: a playbook does not end yours.

exit codes: 0 done; 1 status, announce: this node is not announced; 64 wrong arguments; 69 BIRD, ss or ip fails
"""

import argparse
import ipaddress
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

DRAINED = Path("/var/lib/tributary/anycast/drained")
STATUS = Path("/run/tributary-anycast/status.json")  # for `tributary status` and the console
ADDRESSES = Path("/run/tributary-anycast-addresses/set.json")  # what `addresses` has set
_ENDPOINTS = range(101, 200)  # ids of ours
_PROTOCOLS = '"anycast*"'
_DEAD = ("inactive", "failed")
_BY_HAND = "maintenance"
_UNHEARD = "no router hears it: `birdc show protocols` says why"
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
    states = [words[3] for words in _protocols(printed, "anycast")]
    return bool(states) and all(state == "up" for state in states)


def is_heard(printed: str) -> bool:
    """Whether a router of each IP version that is announced listens, by the same.

    BGP says "Established", OSPF "Running" once a neighbour is full.
    """
    versions = [words[0].removeprefix("anycast") for words in _protocols(printed, "anycast")]
    listens = [words[0] for words in _protocols(printed, "router") if words[5:6] in (["Established"], ["Running"])]
    of_version = [any(name.startswith((f"router{each}_", f"routers{each}")) for name in listens) for each in versions]
    return bool(versions) and all(of_version)


def _protocols(printed: str, name: str) -> Iterator[Sequence[str]]:
    """The lines of the protocols whose names begin so, as words."""
    return (words for words in map(str.split, printed.splitlines()) if words and words[0].startswith(name))


def answers(address: str, port: int) -> bool:
    """Whether something speaks HTTP there."""
    try:
        with socket.create_connection((address, port), _TIMEOUT) as connection:
            connection.sendall(_QUESTION)
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False


def bird(command: str) -> None:
    """Give BIRD a ``command`` about its protocols of ours; raises Silent."""
    _printed(["birdc", command, _PROTOCOLS])


def is_dead() -> bool:
    """Whether BIRD does not run, as systemd says: then it announces nothing."""
    try:
        return _printed(["systemctl", "show", "--property=ActiveState", "--value", "bird.service"]).strip() in _DEAD
    except Silent:
        return False


def protocols() -> str:
    """BIRD's protocols, as it prints them; raises Silent."""
    return _printed(["birdc", "show", "protocols"])


def _printed(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Silent(f"{command[0]} does not answer: {error}") from error
    if done.returncode != 0:
        raise Silent(f"{command[0]} does not answer: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def settle(wanted: bool, printed: str) -> bool:
    """Switch the announcement on or off unless it is so by ``printed``; returns whether something was changed."""
    if is_up(printed) == wanted:
        return False
    bird("enable" if wanted else "disable")
    return True


def watch(proxies: Sequence[tuple[str, int]], most: int, interval: float) -> NoReturn:
    """Look, judge, settle, for ever."""
    health, heard = Health(most), False
    while True:
        health = health.after(all(answers(*proxy) for proxy in proxies))
        reason = drained()
        wanted = health.well and reason is None
        now, before, heard = None, heard, False
        try:
            printed = protocols()
            if settle(wanted, printed):
                print(_said(wanted, reason), flush=True)
            heard = is_heard(printed)
            now = wanted and heard
        except Silent as error:
            print(error, file=sys.stderr, flush=True)
        if heard != before:
            print("a router hears it" if heard else _UNHEARD, flush=True)
        status = {"announced": now, "drained": reason, "answers": health.well, "heard": heard}
        write_status({"time": time.time(), **status})
        time.sleep(interval)


def write_status(status: Mapping[str, object]) -> None:
    """Replace the file, for readers that are there at any time."""
    try:
        _replace(STATUS, status)
    except OSError as error:
        print(f"{STATUS}: cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def _replace(path: Path, document: Mapping[str, object]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document))
    new.chmod(0o644)
    new.replace(path)


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
        DRAINED.parent.mkdir(parents=True, exist_ok=True)  # the watch may never have run, or be on its way out
        DRAINED.write_text(f"{reason}\n")
    try:
        bird("disable")
        print("withdrawn")
    except Silent:
        if not is_dead():
            raise
        print("withdrawn: BIRD does not run")
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
    while not (is_up(printed := protocols()) and is_heard(printed)):
        if time.monotonic() > deadline:
            why = _UNHEARD if is_up(printed) else "journalctl -u tributary-anycast says why"
            print(f"not announced after {_ANNOUNCE_TIMEOUT:.0f} s: {why}", file=sys.stderr)
            return 1
        time.sleep(0.5)
    print("announced")
    return 0


def status() -> int:
    """Say whether this node is announced."""
    printed = protocols()
    heard = is_heard(printed)
    print(("announced" if heard else _UNHEARD) if is_up(printed) else "withdrawn")
    return 0 if is_up(printed) and heard else 1


@dataclass(frozen=True)
class Addresses:
    """What ip(8) is to set: ``local`` on lo, an endpoint for each of those that clients join at, and local routes."""

    local: Sequence[str] = ()
    endpoints: Mapping[int, str] = field(default_factory=dict)
    routes: Sequence[str] = ()

    def without(self, kept: "Addresses") -> Iterator[str]:
        """The arguments of ip that remove what is here and not in ``kept``."""
        yield from (f"mptcp endpoint delete id {number}" for number, _ in self._endpoints_beside(kept))
        yield from (f"route del local {address} dev lo" for address in self.routes if address not in kept.routes)
        gone = (address for address in self.local if address not in kept.local)
        yield from (f"address del {address}/{_bits(address)} dev lo" for address in gone)

    def beside(self, found: "Addresses") -> Iterator[str]:
        """The arguments of ip that set all of this where ``found`` is there."""
        for address in self.local:
            # Nothing that this machine begins comes from there: the answer could go to another node.
            unused = " preferred_lft 0" if ":" in address else ""
            yield f"address replace {address}/{_bits(address)} dev lo{unused}"
        yield from (f"mptcp endpoint add {address} id {n} signal" for n, address in self._endpoints_beside(found))
        # The other nodes' own: what comes for them comes because such a node is dead, and is answered by a reset.
        yield from (f"route replace local {address} dev lo" for address in self.routes)

    def _endpoints_beside(self, other: "Addresses") -> Iterator[tuple[int, str]]:
        return ((number, each) for number, each in self.endpoints.items() if other.endpoints.get(number) != each)


def _bits(address: str) -> int:
    return 128 if ":" in address else 32


def set_addresses(shared: Sequence[str], own: Sequence[str], others: Sequence[str]) -> int:
    """Have these, and nothing else that an earlier call has set; what stays keeps its connections. Raises Silent."""
    wanted = Addresses([*shared, *own], dict(zip(_ENDPOINTS, own, strict=False)), others)
    found = _found()
    for words in found.without(wanted):
        with suppress(Silent):  # it is gone already
            _printed(["ip", *words.split()])
    _replace(ADDRESSES, {"local": wanted.local, "routes": wanted.routes})
    for words in wanted.beside(found):
        _printed(["ip", *words.split()])
    return 0


def _found() -> Addresses:
    printed = json.loads(_printed(["ip", "-j", "mptcp", "endpoint", "show"]) or "[]")
    endpoints = {each["id"]: each["address"] for each in printed if each["id"] in _ENDPOINTS}
    before, routes = _set_before()
    return Addresses(list(dict.fromkeys([*before, *endpoints.values()])), endpoints, routes)


def _set_before() -> tuple[list[str], list[str]]:
    """The addresses on lo and the local routes that an earlier call has set; a damaged file is renamed, and said."""
    try:
        before = json.loads(ADDRESSES.read_text())
        return _addresses(before["local"]), _addresses(before["routes"])
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        broken = ADDRESSES.with_name(f"{ADDRESSES.name}.broken")
        with suppress(OSError):
            ADDRESSES.replace(broken)
        line = f"cannot be read ({error!r}): what it names may stay on lo; it is renamed to {broken.name}"
        print(f"{ADDRESSES}: {line}", file=sys.stderr)
        return [], []


def _addresses(listed: object) -> list[str]:
    if not isinstance(listed, list):
        raise TypeError(listed)
    return [str(ipaddress.ip_address(each)) for each in listed]


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
    places = commands.add_parser("addresses")
    for kind in ("shared", "own", "other"):
        places.add_argument(f"--{kind}", type=_address, action="append", default=[], metavar="ADDRESS")
    places.set_defaults(act=lambda given: set_addresses(given.shared, given.own, given.other))
    commands.add_parser("status").set_defaults(act=lambda _: status())
    commands.add_parser("withdraw").set_defaults(act=lambda _: withdraw())
    return arguments


def _address(text: str) -> str:
    return str(ipaddress.ip_address(text))


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
