"""Probes over loopback, with real sockets."""

import selectors
import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from router.prober import Outcome, Prober
from tributary.settings.hosts import Target

HERE = ip_address("127.0.0.1")


@pytest.fixture
def prober() -> Iterator[Prober[str]]:
    with Prober[str]() as made:
        yield made


def outcome(prober: Prober[str], now: float) -> Outcome[str]:
    """The one outcome that comes, whenever it does."""
    with selectors.DefaultSelector() as selector:
        selector.register(prober, selectors.EVENT_READ)
        selector.select(5)
    (found,) = prober.outcomes(now)
    return found


def test_an_answer_comes_with_the_time_that_the_kernel_measured_however_late_it_is_heard(prober: Prober[str]) -> None:
    """Work of our own between question and answer, such as programs that are run, is no delay of the link."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        prober.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 100.0, 2.0)
        assert prober.next_due == 102.0
        found = outcome(prober, 100.5)
        assert found.rtt is not None and 0 < found.rtt < 0.1
        assert found == Outcome("dsl", found.rtt)
    assert prober.next_due is None


def test_a_refusal_is_an_answer(prober: Prober[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    prober.start("dsl", "lo", HERE, Target(HERE, port), 100.0, 2.0)
    assert outcome(prober, 100.25) == Outcome("dsl", 0.25, is_refused=True)


def test_an_error_at_once_is_told_when_the_time_is_over(prober: Prober[str]) -> None:
    prober.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    assert list(prober.outcomes(101.0)) == []
    (found,) = prober.outcomes(102.0)
    assert (found.rtt, found.reason) == (None, "Cannot assign requested address")
    prober.start("dsl", "no-such-link", HERE, Target(HERE, 5124), 103.0, 2.0)
    (found,) = prober.outcomes(105.0)
    assert found.reason == "No such device"


def test_one_probe_a_link_is_under_way(prober: Prober[str]) -> None:
    for _ in range(3):
        prober.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    assert len(list(prober.outcomes(110.0))) == 1


def test_silence_is_a_failure_when_the_time_is_over(prober: Prober[str]) -> None:
    # A queue that is full: what comes then is not answered.
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),
        socket.socket() as second,
    ):
        second.setblocking(False)
        second.connect_ex(server.getsockname())
        prober.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 100.0, 2.0)
        assert list(prober.outcomes(101.9)) == []
        assert list(prober.outcomes(102.0)) == [Outcome("dsl", None, "no answer in time")]


def test_a_probe_that_is_forgotten_makes_room_for_another_and_tells_nothing(prober: Prober[str]) -> None:
    prober.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    prober.forget("dsl")
    prober.forget("lte")
    with socket.create_server(("127.0.0.1", 0)) as server:
        prober.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 101.0, 2.0)
        assert outcome(prober, 101.5).rtt is not None
    assert list(prober.outcomes(200.0)) == []
