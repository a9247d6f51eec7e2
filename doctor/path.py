"""Whether MPTCP gets through to a server, from each of this host's addresses.

A middlebox that takes MP_CAPABLE off a SYN, or drops such SYNs, leaves plain TCP or nothing (RFC 8684 section 3.7).
If one address gets through, the server speaks MPTCP; then the paths of the other addresses are to blame.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address

from doctor.findings import Finding, State, ok
from tributary.mptcp.info import IPPROTO_MPTCP, is_mptcp

_TIMEOUT = 5.0  # seconds; a SYN that is dropped is sent again after one, without the option after some


class Outcome(Enum):
    """The outcome of a connection."""

    MULTIPATH = "speaks MPTCP"
    PLAIN = "speaks plain TCP"
    NONE = "does not connect"


@dataclass(frozen=True)
class Try:
    """A connection from ``address`` of this host; ``error`` is the system's if there was none."""

    address: str
    outcome: Outcome
    error: str = ""


def attempt(address: str, server: str, port: int) -> Try:
    """Connect from ``address`` to ``server``, both IP addresses of one version, and return the outcome."""
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP) as connection:
            connection.settimeout(_TIMEOUT)
            connection.bind((address, 0))
            connection.connect((server, port))
            return Try(address, Outcome.MULTIPATH if is_mptcp(connection) else Outcome.PLAIN)
    except OSError as error:
        return Try(address, Outcome.NONE, error.strerror or str(error))


def judge(server: str, tries: Sequence[Try]) -> list[Finding]:
    """Findings from the tries to reach ``server``."""
    check = f"path to {server}"
    if not tries:
        return [Finding(check, State.WRONG, "this host has no address of that IP version")]
    able = any(each.outcome is Outcome.MULTIPATH for each in tries)
    return [_judge_one(check, each, able) for each in tries]


def _judge_one(check: str, each: Try, able: bool) -> Finding:
    if each.outcome is Outcome.MULTIPATH:
        return ok(check, f"{each.address} {each.outcome.value}")
    if each.outcome is Outcome.NONE:
        return Finding(check, State.WRONG, f"{each.address} {each.outcome.value}: {each.error}")
    if able:
        advice = "a middlebox on this path strips MPTCP options: ask its operator, or use a tunnel on this link"
        return Finding(check, State.WRONG, f"{each.address} {each.outcome.value}, others do not", advice=advice)
    advice = "try a port of a Tributary gateway, which speaks MPTCP for certain"
    message = f"{each.address} {each.outcome.value}: the server has no MPTCP, or every path strips it"
    return Finding(check, State.WRONG, message, advice=advice)
