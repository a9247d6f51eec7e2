"""What a probe makes of two answers of the kernel that belong together."""

import socket
import struct
from collections.abc import Iterator

import pytest

from experiments.probes.subflows import together


def pair(last: int) -> bytes:
    """struct mptcp_subflow_addrs: local 10.0.LAST.2, remote 10.0.0.1."""
    ends = [socket.inet_aton(f"10.0.{last}.2"), socket.inet_aton("10.0.0.1")]
    return b"".join(
        (struct.pack("=H", socket.AF_INET) + struct.pack("!H", 5000) + end).ljust(128, b"\0") for end in ends
    )


def info(received: int) -> bytes:
    """struct tcp_info with tcpi_bytes_received."""
    return (b"\0" * 128 + struct.pack("=Q", received)).ljust(232, b"\0")


def test_a_subflow_that_goes_between_two_answers_gives_its_state_to_no_other() -> None:
    """The first of two subflows closes after the addresses were read: the second keeps its own count."""
    both, one = [pair(1), pair(2)], [pair(2)]
    addresses: Iterator[list[bytes]] = iter([both, one, one])
    infos = iter([[info(200)], [info(250)]])
    (found,) = together(lambda: next(addresses), lambda: next(infos))
    assert (found.local, found.received) == ("10.0.2.2:5000", 250)


def test_what_stands_still_is_read_once() -> None:
    both = [pair(1), pair(2)]
    found = together(lambda: both, lambda: [info(100), info(200)])
    assert [(each.local, each.received) for each in found] == [("10.0.1.2:5000", 100), ("10.0.2.2:5000", 200)]


def test_what_never_stands_still_is_an_error() -> None:
    counter = iter(range(1000))
    with pytest.raises(OSError, match="changed whenever"):
        together(lambda: [pair(next(counter) % 200)], lambda: [info(1)])
