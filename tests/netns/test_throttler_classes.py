"""The throttler on the real kernel: classes of throttled subflows, by either source."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.netns.throttler_world import (
    CLIENT,
    GATEWAY,
    IPV4,
    IPV6,
    KERNEL,
    WIRED_SLOW,
    class_statuses,
    classes,
    connection,
    elements,
    installed,
    status,
    throttler,
    tributary,
)
from tests.netns.world import ENVIRONMENT, eventually, in_namespace, on, process, program, run, said_ready
from tributary.settings.errors import Exit

pytestmark = pytest.mark.usefixtures("world")


def refused(policy: Path = WIRED_SLOW) -> tuple[int, str]:
    """The exit code and the one line of a throttler that does not start."""
    command = in_namespace(GATEWAY, sys.executable, "-m", "throttler", "run", "--policy", str(policy))
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=20)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.returncode, result.stderr


@pytest.mark.calm
@pytest.mark.parametrize(("source", "address", "family"), [("kernel", IPV4, 4), ("sniffer", IPV6, 6)])
def test_a_throttled_subflow_obeys_its_rate(source: str, address: str, family: int) -> None:
    with throttler(source), connection(address) as client:
        eventually(lambda: elements(family))
        assert len(classes()) == 1
        client.request(24_000_000)
        eventually(lambda: class_statuses()[0]["sent_bytes"] > 100_000)
        start, (before,) = time.monotonic(), class_statuses()
        time.sleep(3)
        (after,), end = class_statuses(), time.monotonic()
        rate = 8 * (after["sent_bytes"] - before["sent_bytes"]) / (end - start)
        # Never faster; not much slower either: there is data enough.
        assert 3.5e6 < rate < 5.2e6
        # A client that goes while it is sent much leaves the server's side of the session open for long.
        client.finish()


@pytest.mark.parametrize(("source", "address", "family"), [("kernel", IPV4, 4), ("sniffer", IPV6, 6)])
def test_a_closed_connection_leaves_no_element_and_no_class(source: str, address: str, family: int) -> None:
    with throttler(source), connection(address) as client:
        (element,) = eventually(lambda: elements(family))
        assert element.startswith(f"{address} . 3128 . {address[:-1]}2 . ")
        assert len(classes()) == 1
        client.close()
        eventually(lambda: not elements(family) and not classes())
        answer = status()
        assert answer["sessions"] == []
        assert answer["counters"]["elements added"] == answer["counters"]["elements removed"] == 1


def test_a_limit_is_released_when_the_other_subflow_goes(source: str) -> None:
    with throttler(source), connection() as client:
        eventually(elements)
        run("ip", "-n", CLIENT, "link", "set", "wireless", "down")
        try:
            endpoints = run("ip", "-n", CLIENT, "mptcp", "endpoint", "show")
            match = re.search(r"10\.0\.2\.2 id (\d+)", endpoints)
            assert match is not None
            run("ip", "-n", CLIENT, "link", "set", "wireless", "up")
            run("ip", "-n", CLIENT, "mptcp", "endpoint", "del", "id", match[1])
            eventually(lambda: not elements() and not classes())
            assert len(status()["sessions"]) == 1
            client.request(1000)
            client.finish()
        finally:
            restore_wireless()


def restore_wireless() -> None:
    """The client's routes and endpoints of a link that was down."""
    run("ip", "-n", CLIENT, "link", "set", "wireless", "up")
    for family, network in (("-4", "10.0.2."), ("-6", "fd00:0:0:2::")):
        length = 24 if family == "-4" else 64
        nodad = ("nodad",)[: family == "-6"]
        for name, host in ((CLIENT, "2"), (GATEWAY, "1")):
            address = f"{network}{host}/{length}"
            run("ip", "-n", name, "address", "replace", address, "dev", "wireless", *nodad)
        default = ("default", "via", f"{network}1", "dev", "wireless", "table", "2")
        run("ip", "-n", CLIENT, family, "route", "replace", *default)
        run("ip", "-n", CLIENT, "mptcp", "endpoint", "add", f"{network}2", "dev", "wireless", "subflow", check=False)


def test_status_tells_what_the_kernel_knows(source: str) -> None:
    with throttler(source), connection():
        eventually(elements)
        (session,) = status()["sessions"]
        sockets = on(GATEWAY, "ss -tin sport = 3128")
        # ss leaves zeros out from the fifth digit on.
        assert f"/{int(session['token'], 16):04x}(id:" in sockets
        subflows = {subflow["path"]: subflow for subflow in session["subflows"]}
        assert set(subflows) == {"wired", "wireless"}
        for subflow in subflows.values():
            assert f"{subflow['remote']}]:{subflow['remote_port']}" in sockets
        assert subflows["wired"]["initial"] and not subflows["wireless"]["initial"]
        assert subflows["wireless"]["download"] is None
        (hold,) = class_statuses()
        assert (hold["rule"], hold["rate"], [hold["class"]]) == ("wired-slow", "5mbit", classes())
        assert subflows["wired"]["download"] == hold["class"]


def test_no_data_packet_reaches_python() -> None:
    with throttler("sniffer"), connection() as client:
        eventually(elements)
        client.request(10_000_000)
        client.finish()
        client.close()
        packets = json.loads(on(GATEWAY, "ip -s -j link show dev wired"))[0]["stats64"]["tx"]["packets"]
        counts = status()["capture"]["wired"]
        assert packets > 500
        # The handshake, the first data, announced addresses, the end.
        assert 5 <= counts["passed"] <= 20
        assert counts["dropped"] == counts["unreadable"] == 0


@KERNEL
def test_after_the_stop_everything_is_as_it_was(source: str) -> None:
    before = installed()
    with throttler(source) as child, connection():
        eventually(elements)
        assert installed() != before
        child.terminate()
        assert child.wait(10) == 0
    assert installed() == before


@KERNEL
def test_after_kill_9_the_next_start_cleans_up_and_works(source: str) -> None:
    before = installed()
    with throttler(source) as child, connection():
        eventually(elements)
        child.kill()
        child.wait(10)
        assert elements() and classes()
    with throttler(source) as child:
        assert not elements() and not classes()
        with connection():
            eventually(elements)
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 0
    assert installed() == before


@KERNEL
def test_a_second_throttler_is_refused(source: str) -> None:
    with throttler(source):
        during = installed()
        code, line = refused()
        assert code == Exit.IN_USE
        assert "already runs in this network namespace" in line
        assert installed() == during


def test_a_foreign_root_qdisc_is_refused_and_left_alone() -> None:
    on(GATEWAY, "tc qdisc add dev wired root handle 1: pfifo")
    try:
        before = installed()
        code, line = refused()
        assert code == Exit.IN_USE
        assert "wired has the root qdisc pfifo 1:" in line
        assert installed() == before
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
        run("ip", "-n", GATEWAY, "link", "set", "wired", "down")
        run("ip", "-n", GATEWAY, "link", "set", "wired", "up")
        run("ip", "-n", GATEWAY, "address", "replace", f"{IPV6}/64", "dev", "wired", "nodad")
        with connection():
            eventually(elements)


def test_a_forged_join_gets_no_element(source: str) -> None:
    with throttler(source), connection():
        eventually(elements)
        link = json.loads(run("ip", "-n", CLIENT, "-j", "link", "show", "dev", "wired"))
        own = json.loads(run("ip", "-n", GATEWAY, "-j", "link", "show", "dev", "wired"))
        neighbour = ("lladdr", link[0]["address"], "dev", "wired")
        run("ip", "-n", GATEWAY, "neighbour", "replace", "10.0.1.77", *neighbour)
        token = status()["sessions"][0]["token"]
        run(*in_namespace(CLIENT, *program("forged_join", token, "10.0.1.77", own[0]["address"])))
        eventually(lambda: source == "kernel" or status()["counters"].get("wrong HMACs") == 1)
        assert not [element for element in elements() if "10.0.1.77" in element]
        assert len(status()["sessions"][0]["subflows"]) == 2


def test_without_a_throttler_status_says_so() -> None:
    refusal = tributary("status", "throttler", code=Exit.UNAVAILABLE)
    assert refusal == "tributary: no throttler runs in this network namespace\n"


def test_a_limit_lasts_until_all_is_sent_that_was_written_before_the_close(source: str) -> None:
    with process(*in_namespace(GATEWAY, *program("hasty_server"))) as server, throttler(source):
        said_ready(server)
        with process(*in_namespace(CLIENT, *program("late_reader", IPV4))) as reader:
            assert server.stdout is not None and reader.stdin is not None and reader.stdout is not None
            assert server.stdout.readline() == "closed\n"
            eventually(elements)
            time.sleep(1.5)
            assert len(elements()) == 1
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "2000000\n"
            eventually(lambda: not elements())
