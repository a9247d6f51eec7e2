import selectors
import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from router.probes.tcp_probe import Outcome, TcpProbe
from tributary.settings.hosts import Target

HERE = ip_address("127.0.0.1")


@pytest.fixture
def tcp_probe() -> Iterator[TcpProbe[str]]:
    with TcpProbe[str]() as made:
        yield made


def outcome(tcp_probe: TcpProbe[str], now: float) -> Outcome[str]:
    """The one outcome that comes, whenever it does."""
    with selectors.DefaultSelector() as selector:
        selector.register(tcp_probe, selectors.EVENT_READ)
        selector.select(5)
    (found,) = tcp_probe.outcomes(now)
    return found


def test_an_answer_comes_with_the_time_the_kernel_measured_however_late_it_is_heard(tcp_probe: TcpProbe[str]) -> None:
    """Work of our own between question and answer, such as programs that are run, is no delay of the link."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        tcp_probe.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 100.0, 2.0)
        assert tcp_probe.next_due == 102.0
        found = outcome(tcp_probe, 100.5)
        assert found.rtt is not None and 0 < found.rtt < 0.1
        assert found == Outcome("dsl", found.rtt)
    assert tcp_probe.next_due is None


def test_a_refusal_is_an_answer(tcp_probe: TcpProbe[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    tcp_probe.start("dsl", "lo", HERE, Target(HERE, port), 100.0, 2.0)
    assert outcome(tcp_probe, 100.25) == Outcome("dsl", 0.25, is_refused=True)


def test_an_error_at_once_is_told_when_the_time_is_over(tcp_probe: TcpProbe[str]) -> None:
    tcp_probe.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    assert list(tcp_probe.outcomes(101.0)) == []
    (found,) = tcp_probe.outcomes(102.0)
    assert (found.rtt, found.reason) == (None, "Cannot assign requested address")
    tcp_probe.start("dsl", "no-such-link", HERE, Target(HERE, 5124), 103.0, 2.0)
    (found,) = tcp_probe.outcomes(105.0)
    assert found.reason == "No such device"


def test_one_probe_a_link_is_under_way(tcp_probe: TcpProbe[str]) -> None:
    for _ in range(3):
        tcp_probe.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    assert len(list(tcp_probe.outcomes(110.0))) == 1


def test_silence_is_a_failure_when_the_time_is_over(tcp_probe: TcpProbe[str]) -> None:
    # A queue that is full: what comes then is not answered.
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),
        socket.socket() as second,
    ):
        second.setblocking(False)
        second.connect_ex(server.getsockname())
        tcp_probe.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 100.0, 2.0)
        assert list(tcp_probe.outcomes(101.9)) == []
        assert list(tcp_probe.outcomes(102.0)) == [Outcome("dsl", None, "no answer in time")]


def test_a_probe_that_is_forgotten_makes_room_for_another_and_tells_nothing(tcp_probe: TcpProbe[str]) -> None:
    tcp_probe.start("dsl", "lo", ip_address("192.0.2.99"), Target(HERE, 5124), 100.0, 2.0)
    tcp_probe.cancel("dsl")
    tcp_probe.cancel("lte")
    with socket.create_server(("127.0.0.1", 0)) as server:
        tcp_probe.start("dsl", "lo", HERE, Target(HERE, server.getsockname()[1]), 101.0, 2.0)
        assert outcome(tcp_probe, 101.5).rtt is not None
    assert list(tcp_probe.outcomes(200.0)) == []
