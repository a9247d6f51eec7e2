import signal
import socket
import time

import pytest

from tests.netns.connections import MPTCP
from tests.netns.links_world import AT_CLIENT, AT_GATEWAY, CLIENT, GATEWAY, IPV4, IPV6, connection, endpoint, link
from tests.netns.throttler_world import (
    BOTH_VERSIONS,
    KERNEL,
    WIRED_SLOW,
    ask,
    class_statuses,
    classes,
    elements,
    installed,
    status,
    throttled,
    throttler,
)
from tests.netns.world import connected, eventually, listener_at, on
from tributary.settings.errors import Exit

pytestmark = pytest.mark.usefixtures("world")

SO_SNDBUFFORCE = 32


def is_refused(because: str) -> None:
    """A throttler does not start, says why in one line, and changes nothing."""
    before = installed()
    line = ask("run", "--policy", str(WIRED_SLOW), code=Exit.IN_USE)
    assert because in line and line.count("\n") == 1
    assert installed() == before


@pytest.mark.calm
@BOTH_VERSIONS
def test_a_throttled_subflow_obeys_its_rate(source: str, address: str, family: int) -> None:
    with throttled(source, address=address) as (_, client):
        assert elements(family) and len(classes()) == 1
        client.request(24_000_000)
        eventually(lambda: class_statuses()[0]["sent"] > 100_000)
        start, (before,) = time.monotonic(), class_statuses()
        time.sleep(3)
        (after,), end = class_statuses(), time.monotonic()
        rate = 8 * (after["sent"] - before["sent"]) / (end - start)
        # Never faster; not much slower either: there is data enough.
        assert 3.5e6 < rate < 5.2e6
        # A client that goes while it is sent much leaves the server's side of the session open for long.
        client.finish()


@BOTH_VERSIONS
def test_a_closed_connection_leaves_no_element_and_no_class(source: str, address: str, family: int) -> None:
    with throttled(source, address=address) as (_, client):
        (element,) = elements(family)
        assert element.startswith(f"{address} . 3128 . {address[:-1]}2 . ")
        assert len(classes()) == 1
        client.close()
        eventually(lambda: not elements(family) and not classes())
        answer = status()
        assert answer["sessions"] == []
        assert answer["counters"]["elements added"] == answer["counters"]["elements removed"] == 1


def test_a_limit_is_released_when_the_other_subflow_goes(source: str) -> None:
    with throttled(source) as (_, client):
        try:
            with AT_CLIENT.without("wireless"):
                number = endpoint(CLIENT, "10.0.2.2")
            on(CLIENT, f"ip mptcp endpoint del id {number}")
            eventually(lambda: not elements() and not classes())
            assert len(status()["sessions"]) == 1
            client.transfer(1000)
        finally:
            restore_wireless()


def restore_wireless() -> None:
    """The client's routes and endpoints of a link that was down."""
    on(CLIENT, "ip link set wireless up")
    for network, length, nodad in (("10.0.2.", 24, ""), ("fd00:0:0:2::", 64, "nodad")):
        for name, host in ((CLIENT, 2), (GATEWAY, 1)):
            on(name, f"ip address replace {network}{host}/{length} dev wireless {nodad}")
        on(CLIENT, f"ip route replace default via {network}1 dev wireless table 2")
        on(CLIENT, f"ip mptcp endpoint add {network}2 dev wireless subflow", check=False)


def test_status_tells_what_the_kernel_knows(source: str) -> None:
    with throttled(source):
        (session,) = status()["sessions"]
        sockets = on(GATEWAY, "ss -tin sport = 3128")
        # ss leaves zeros out from the fifth digit on.
        assert f"/{int(session['token'], 16):04x}(id:" in sockets
        subflows = {subflow["path"]: subflow for subflow in session["subflows"]}
        assert set(subflows) == {"wired", "wireless"}
        for subflow in subflows.values():
            assert subflow["remote"].replace(":", "]:") in sockets
        assert subflows["wired"]["initial"] and not subflows["wireless"]["initial"]
        assert subflows["wireless"]["download"] is None
        (hold,) = class_statuses()
        assert (hold["rule"], hold["rate"], [hold["id"]]) == ("wired-slow", "5mbit", classes())
        assert subflows["wired"]["download"] == hold["id"]


def test_no_data_packet_reaches_python() -> None:
    with throttled("sniffer") as (_, client):
        client.transfer(10_000_000)
        client.close()
        assert link(GATEWAY, "wired")["stats64"]["tx"]["packets"] > 500
        # The handshake, the first data, announced addresses, the end.
        eventually(lambda: status()["capture"]["wired"]["passed"] >= 5)
        counts = status()["capture"]["wired"]
        assert counts["passed"] <= 20
        assert counts["dropped"] == counts["unreadable"] == 0


@KERNEL
def test_after_kill_9_the_next_start_cleans_up_and_works(source: str) -> None:
    before = installed()
    with throttled(source) as (child, _):
        assert installed() != before
        child.stop(signal.SIGKILL)
        assert elements() and classes()
    for number in (signal.SIGINT, signal.SIGTERM):
        with throttler(source) as child:
            assert not elements() and not classes()
            with connection():
                eventually(elements)
                assert child.stop(number) == 0
        assert installed() == before


@KERNEL
def test_a_second_throttler_is_refused(source: str) -> None:
    with throttler(source):
        is_refused("already runs in this network namespace")


def test_a_foreign_root_qdisc_is_refused_and_left_alone() -> None:
    on(GATEWAY, "tc qdisc add dev wired root handle 1: pfifo")
    try:
        is_refused("wired has the root qdisc pfifo 1:")
    finally:
        on(GATEWAY, "tc qdisc del dev wired root")


@KERNEL
def test_a_foreign_qdisc_that_appears_later_ends_the_throttler_and_stays(source: str) -> None:
    with throttler(source) as child:
        on(GATEWAY, "tc qdisc del dev wired root")
        on(GATEWAY, "tc qdisc add dev wired root handle 1: pfifo")
        try:
            with connection():
                assert child.wait(10) == Exit.IN_USE
            assert "pfifo 1:" in on(GATEWAY, "tc qdisc show dev wired")
            assert on(GATEWAY, "nft list ruleset") == ""
        finally:
            on(GATEWAY, "tc qdisc del dev wired root")


def test_a_link_that_was_down_is_watched_on() -> None:
    with throttler("sniffer"):
        for change in ("link set wired down", "link set wired up", f"address replace {IPV6}/64 dev wired nodad"):
            on(GATEWAY, f"ip {change}")
        with connection():
            eventually(elements)


def test_a_limit_lasts_until_all_is_sent_that_was_written_before_the_close(source: str) -> None:
    with listener_at(AT_GATEWAY, 3129) as listener, throttler(source):
        # What is accepted has it from the listener, so before anybody connects.
        listener.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 23)
        with connected(AT_CLIENT, IPV4, 3129, protocol=MPTCP) as reader:
            with listener.accept()[0] as server:
                # A join comes after the first data.
                reader.sendall(b"x")
                server.recv(1)
                server.sendall(bytes(1000))
                reader.recv(1000, socket.MSG_WAITALL)
                # Once the server has closed, none comes any more.
                eventually(elements)
                server.sendall(bytes(2_000_000))
            time.sleep(1.5)
            assert len(elements()) == 1
            assert sum(iter(lambda: len(reader.recv(65536)), 0)) == 2_000_000
        eventually(lambda: not elements())
