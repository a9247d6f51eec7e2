"""The command line of the suite."""

import argparse
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import NoReturn

from . import report
from .checks import ALL
from .message import Address
from .rig import Settings, Unreachable, run
from .verdict import Check, Level, Outcome, Result

PASSED, MUST_FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 64, 69, 130
UNITS = {"ms": 0.001, "s": 1.0}


class Parser(argparse.ArgumentParser):
    """Usage errors exit with 64; arguments have the names of Settings."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(USAGE)


def duration(text: str) -> float:
    """Seconds in a number with a unit, as 5s or 500ms."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time with a unit, as 5s or 500ms")
    return float(found[1]) * UNITS[found[2]]


def positive(text: str) -> float:
    """A duration above zero."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError("must be more than zero")
    return seconds


def host_and_port(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, as 192.0.2.1:5555 or [2001:db8::1]:5555")
    return host.removeprefix("[").removesuffix("]"), int(port)


def address(text: str) -> Address:
    """An IPv4 or IPv6 address."""
    try:
        return ip_address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an IP address") from None


def addresses(text: str) -> tuple[Address, ...]:
    """Addresses with commas between them."""
    return tuple(address(part) for part in text.split(","))


def unreachable(text: str) -> Unreachable:
    """ADDRESS or ADDRESS=CODE."""
    where, equals, code = text.partition("=")
    if equals and not (code.isdecimal() and int(code) <= 255):
        raise argparse.ArgumentTypeError(f"{code!r} is not an ICMP code")
    return Unreachable(address(where), int(code) if equals else None)


def parser() -> Parser:
    """The options, and what they mean."""
    made = Parser(
        prog="convert-conformance",
        description="Tests a Transport Converter against RFC 8803 (0-RTT TCP Convert), as its client and as the "
        "server that it connects to. Exits with 0 if no MUST failed, 1 if one did, 64 if called wrongly, 69 if the "
        "converter cannot be reached.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--converter", type=host_and_port, metavar="HOST:PORT", help="the converter under test")
    add(
        "--origin",
        dest="origins",
        type=addresses,
        metavar="ADDRESS[,ADDRESS]",
        help="addresses of this machine that the converter can reach and may connect to: one of IPv4, one of IPv6",
    )
    add("--mptcp", action="store_true", help="connect by Multipath TCP, and expect it to be served")
    add("--cookies", action="store_true", help="the converter demands cookies (section 6.2.7)")
    add("--forbidden", type=address, metavar="ADDRESS", help="an address that its policy forbids")
    add(
        "--unreachable",
        type=unreachable,
        metavar="ADDRESS[=CODE]",
        help="an address for which the converter gets an ICMP hard error, and that error's code",
    )
    add(
        "--source",
        dest="sources",
        type=addresses,
        default=(),
        metavar="ADDRESS,ADDRESS",
        help="two addresses of this machine to connect to the converter from, to test that cookies are bound to them",
    )
    add("--only", metavar="GLOB", help="run only the checks whose names match")
    add("--list", action="store_true", help="list the checks, run none")
    add("--json", action="store_true", help="print JSON")
    add("--timeout", type=positive, default=5.0, metavar="TIME", help="for one step of a check; 5s")
    add("--quiet", type=positive, default=0.2, metavar="TIME", help="how long to watch that nothing happens; 200ms")
    add(
        "--pace",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="wait before each connection, for a converter that limits the rate of its errors; 0s",
    )
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the suite; returns the exit code."""
    made = parser()
    given = made.parse_args(arguments)
    checks = [each for each in ALL if given.only is None or fnmatchcase(each.name, given.only)]
    if not checks:
        made.error(f"no check matches --only {given.only!r}; see --list")
    if given.list:
        print(report.listing_json(checks) if given.json else report.listing(checks))
        return PASSED
    if given.converter is None or given.origins is None:
        made.error("--converter HOST:PORT and --origin ADDRESS are needed")
    for name, local in (("--origin", given.origins), ("--source", given.sources)):
        for each in local:
            _check_bindable(made, name, each)
    host, port = given.converter
    try:
        with socket.create_connection((host, port), given.timeout) as trial:
            given.family, given.converter = trial.family, (trial.getpeername()[0], port)
    except OSError as error:
        print(f"convert-conformance: no connection to the converter at {host} port {port}: {error}", file=sys.stderr)
        return UNREACHABLE
    settings = Settings(**{each.name: getattr(given, each.name) for each in fields(Settings)})
    return _run(checks, settings, given.json)


def _check_bindable(made: Parser, name: str, local: Address) -> None:
    family = socket.AF_INET6 if local.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((str(local), 0))
    except OSError as error:
        made.error(f"{name} {local}: not an address that this machine can use: {error.strerror}")


def _run(checks: Sequence[Check], settings: Settings, as_json: bool) -> int:
    results: list[Result] = []
    interrupted = False
    try:
        for number, check in enumerate(checks, start=1):
            print(f"[{number}/{len(checks)}] {check.name}", end=" ", file=sys.stderr, flush=True)
            results.append(run(check, settings))
            outcome = results[-1].result
            print(outcome.upper() if outcome == Outcome.FAIL else outcome, file=sys.stderr)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted", file=sys.stderr)
    host, port = settings.converter
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(report.to_json(results, where) if as_json else report.table(results))
    if interrupted:
        return INTERRUPTED
    return MUST_FAILED if any((each.result, each.level) == (Outcome.FAIL, Level.MUST) for each in results) else PASSED
