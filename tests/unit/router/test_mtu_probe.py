"""Pings whose socket cannot be made ready: without CAP_NET_RAW, by sockets that stand for raw ones."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from router.probes import mtu_probe
from router.probes.mtu import Path
from router.probes.mtu_probe import MtuProbe, PingResult

HERE = ip_address("127.0.0.1")
PATH = Path("lo", HERE, HERE, 1500)


class Raw(socket.socket):
    """Answers to others have come to it already; ``fails`` is the call that does."""

    fails = ""

    def connect(self, _address: object) -> None:
        if self.fails == "connect":
            raise OSError("Network is unreachable")
        super().connect(("127.0.0.1", 9))

    def send(self, _data: object, _flags: int = 0) -> int:
        raise OSError("Message too long")


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[Raw]:
    def prepare(made: Raw, _version: int) -> None:
        if made.fails == "setsockopt":
            raise OSError("Protocol not available")

    with Raw(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
        monkeypatch.setattr(mtu_probe, "bound", lambda *_: made)
        monkeypatch.setattr(mtu_probe, "_prepare", prepare)
        yield made


@pytest.mark.parametrize("fails", ["setsockopt", "connect"])
def test_a_socket_that_would_hear_answers_to_others_is_closed(raw: Raw, fails: str) -> None:
    raw.fails = fails
    with MtuProbe() as probe:
        probe.start("dsl", PATH, 1500, 2.0, 100.0)
        assert raw.fileno() == -1
        assert list(probe.outcomes(101.0)) == []
        assert list(probe.outcomes(102.0)) == [PingResult("dsl")]


def test_a_packet_that_cannot_be_sent_leaves_the_socket_for_what_the_kernel_says_of_it(raw: Raw) -> None:
    with MtuProbe() as probe:
        probe.start("dsl", PATH, 1500, 2.0, 100.0)
        assert raw.fileno() != -1 and probe._selector.get_map()
        assert list(probe.outcomes(102.0)) == [PingResult("dsl")]
        assert raw.fileno() == -1
