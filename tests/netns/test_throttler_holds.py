"""The throttler on the real kernel: a client with two links to a gateway, each a network namespace.

    +--------+ wired              wired +---------+
    |        |.2 ------ 10.0.1.0 ----.1 |         |   fd00:0:0:1::/64, no limit
    | client |                          | gateway |
    |        |.2 ------ 10.0.2.0 ----.1 |         |   fd00:0:0:2::/64, 20 Mbit/s towards the client
    +--------+ wireless        wireless +---------+

The client opens its first subflow over wired and joins over wireless. The policy holds wired to 5 Mbit/s from two
subflows on.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from settings.failure import Exit

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "tc-policies" / "wired-slow.toml"
CLIENT, GATEWAY = f"thr-client-{os.getpid()}", f"thr-gateway-{os.getpid()}"
LINKS = {"wired": 1, "wireless": 2}
IPV4, IPV6 = "10.0.1.1", "fd00:0:0:1::1"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
    pytest.mark.usefixtures("world"),
]

# Sends as many bytes as each line of the client says.
SERVER = """
import socket, threading
def serve(connection):
    block = bytes(65536)
    try:
        for line in connection.makefile():
            left = int(line)
            while left:
                left -= connection.send(block[:left])
    except OSError:
        pass
    connection.close()
listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("::", 3128))
listener.listen(100)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

# Passes each line of its input to the server, reads what was asked for, and says so.
CLIENT_PROGRAM = """
import socket, sys
address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect((address, 3128))
for line in sys.stdin:
    connection.sendall(line.encode())
    left = int(line)
    while left:
        left -= len(connection.recv(min(left, 65536)))
    print("done", flush=True)
connection.close()
"""

# A join with the token in argv[1] from an address that nobody has, whose third ACK has a wrong HMAC.
FORGER = """
import socket, sys
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from throttler.wire.options import MpJoinAck, MpJoinSyn, emit
token, source, gateway = int(sys.argv[1], 16), sys.argv[2], sys.argv[3]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("wired", 3))
def send(flags, seq, ack, option):
    data = emit(option)
    # The options go as Scapy's payload, under a header whose offset counts them in; so the checksum covers them.
    header = TCP(sport=5555, dport=3128, flags=flags, seq=seq, ack=ack, dataofs=5 + len(data) // 4)
    wire.send(bytes(Ether(dst=gateway) / IP(src=source, dst="10.0.1.1") / header / data))
send("S", 1000, 0, MpJoinSyn(False, 9, token, b"abcd"))
while True:
    answer = Ether(wire.recv(2000))
    if TCP in answer and answer[TCP].dport == 5555 and answer[IP].dst == source:
        break
assert answer[TCP].flags == "SA", answer[TCP].flags
send("A", 1001, answer[TCP].seq + 1, MpJoinAck(bytes(20)))
"""


def run(*command: str, check: bool = True) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert not check or result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def in_namespace(name: str, *command: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", name, *command)


def on(name: str, command: str) -> str:
    """Run an ip, nft, tc or ss command in a namespace."""
    return run(*in_namespace(name, *command.split()))


def eventually(fact: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until ``fact`` is true; returns what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := fact()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
    return value


@contextmanager
def process(name: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a namespace with pipes for its input and output; ended, if need be by force, at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        in_namespace(name, *command), stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT
    ) as child:
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


@pytest.fixture(scope="module")
def world() -> Iterator[None]:
    """Both namespaces, and the server in the gateway's."""
    try:
        for name in (CLIENT, GATEWAY):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4")
        for link, number in LINKS.items():
            add_link(link, number)
        # BBR now and then leaves a subflow idle whose rate has fallen a thousandfold, whatever the queue is like.
        on(GATEWAY, "sysctl -qw net.ipv4.tcp_congestion_control=cubic")
        on(GATEWAY, "tc qdisc add dev wireless root tbf rate 20mbit burst 15140b limit 150000b")
        with process(GATEWAY, sys.executable, "-c", SERVER) as child:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            yield
    finally:
        for name in (CLIENT, GATEWAY):
            run("ip", "netns", "del", name, check=False)


def add_link(link: str, number: int) -> None:
    run("ip", "link", "add", link, "netns", GATEWAY, "type", "veth", "peer", "name", link, "netns", CLIENT)
    for name in (CLIENT, GATEWAY):
        run("ip", "-n", name, "link", "set", link, "up")
    for family, network, length in (("-4", f"10.0.{number}.", 24), ("-6", f"fd00:0:0:{number}::", 64)):
        run("ip", "-n", GATEWAY, "address", "add", f"{network}1/{length}", "dev", link, *("nodad",)[: family == "-6"])
        run("ip", "-n", CLIENT, "address", "add", f"{network}2/{length}", "dev", link, *("nodad",)[: family == "-6"])
        run("ip", "-n", CLIENT, family, "rule", "add", "from", f"{network}2", "table", str(number))
        default = ("default", "via", f"{network}1", "dev", link, "table", str(number))
        run("ip", "-n", CLIENT, family, "route", "add", *default)
        run("ip", "-n", CLIENT, "mptcp", "endpoint", "add", f"{network}2", "dev", link, "subflow")


@contextmanager
def throttler(policy: Path = POLICY) -> Iterator[subprocess.Popen[str]]:
    with process(GATEWAY, sys.executable, "-m", "throttler", "run", "--policy", str(policy)) as child:
        assert child.stdout is not None and child.stderr is not None
        if child.stdout.readline() != "ready\n":
            pytest.fail(f"no throttler: {child.stderr.read()}")
        yield child


class Connection:
    """One connection of the client."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child

    def request(self, size: int) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{size}\n")
        self.child.stdin.flush()

    def finish(self) -> None:
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == "done\n"

    def close(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        assert self.child.wait(10) == 0


@contextmanager
def connection(address: str = IPV4) -> Iterator[Connection]:
    with process(CLIENT, sys.executable, "-c", CLIENT_PROGRAM, address) as child:
        client = Connection(child)
        # A join comes after the first data (RFC 8684 section 3.1).
        client.request(1000)
        client.finish()
        yield client


def status() -> dict[str, Any]:
    answer = run(*in_namespace(GATEWAY, sys.executable, "-m", "throttler", "status", "--json"))
    return dict(json.loads(answer))


def holds() -> list[dict[str, Any]]:
    return [subflow["hold"] for session in status()["sessions"] for subflow in session["subflows"] if subflow["hold"]]


def elements(family: int = 4) -> list[str]:
    """The 4-tuples in the nft map."""
    text = on(GATEWAY, f"nft list map inet throttler subflows{family}")
    return re.findall(r"(\S+ \. \d+ \. \S+ \. \d+) : 0x5452", text)


def classes() -> list[str]:
    return re.findall(r"class htb (\S+)", on(GATEWAY, "tc class show dev wired"))


def installed() -> tuple[str, str]:
    return on(GATEWAY, "nft list ruleset"), on(GATEWAY, "tc qdisc show")


def refused(policy: Path = POLICY) -> tuple[int, str]:
    """The exit code and the one line of a throttler that does not start."""
    command = in_namespace(GATEWAY, sys.executable, "-m", "throttler", "run", "--policy", str(policy))
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=20)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.returncode, result.stderr


@pytest.mark.parametrize(("address", "family"), [(IPV4, 4), (IPV6, 6)])
def test_a_held_subflow_obeys_its_rate(address: str, family: int) -> None:
    with throttler(), connection(address) as client:
        eventually(lambda: elements(family))
        assert len(classes()) == 1
        client.request(10**10)
        eventually(lambda: holds()[0]["sent_bytes"] > 100_000)
        start, (before,) = time.monotonic(), holds()
        time.sleep(3)
        (after,), end = holds(), time.monotonic()
        rate = 8 * (after["sent_bytes"] - before["sent_bytes"]) / (end - start)
        # Never faster; not much slower either: there is data enough.
        assert 3.5e6 < rate < 5.2e6


@pytest.mark.parametrize(("address", "family"), [(IPV4, 4), (IPV6, 6)])
def test_a_closed_connection_leaves_no_element_and_no_class(address: str, family: int) -> None:
    with throttler(), connection(address) as client:
        (element,) = eventually(lambda: elements(family))
        assert element.startswith(f"{address} . 3128 . {address[:-1]}2 . ")
        assert len(classes()) == 1
        client.close()
        eventually(lambda: not elements(family) and not classes())
        answer = status()
        assert answer["sessions"] == []
        assert answer["counters"]["holds"] == answer["counters"]["releases"] == 1


def test_a_hold_is_released_when_the_other_subflow_goes() -> None:
    with throttler(), connection() as client:
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


def test_status_tells_what_the_kernel_knows() -> None:
    with throttler(), connection():
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
        assert subflows["wireless"]["hold"] is None
        hold = subflows["wired"]["hold"]
        assert (hold["rule"], hold["rate"], [hold["class"]]) == ("wired-slow", "5mbit", classes())
        text = run(*in_namespace(GATEWAY, sys.executable, "-m", "throttler", "status"))
        assert session["token"] in text


def test_no_data_packet_reaches_python() -> None:
    with throttler(), connection() as client:
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


def test_after_the_stop_everything_is_as_it_was() -> None:
    before = installed()
    with throttler() as child, connection():
        eventually(elements)
        assert installed() != before
        child.terminate()
        assert child.wait(10) == 0
    assert installed() == before


def test_after_kill_9_the_next_start_cleans_up_and_works() -> None:
    before = installed()
    with throttler() as child, connection():
        eventually(elements)
        child.kill()
        child.wait(10)
        assert elements() and classes()
    with throttler() as child:
        assert not elements() and not classes()
        with connection():
            eventually(elements)
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 0
    assert installed() == before


def test_a_second_throttler_is_refused() -> None:
    with throttler():
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


def test_a_foreign_qdisc_that_appears_later_ends_the_throttler_and_stays() -> None:
    with throttler() as child:
        on(GATEWAY, "tc qdisc del dev wired root")
        on(GATEWAY, "tc qdisc add dev wired root handle 1: pfifo")
        try:
            with connection():
                assert child.wait(10) == Exit.SYSTEM
            assert "pfifo 1:" in on(GATEWAY, "tc qdisc show dev wired")
            assert on(GATEWAY, "nft list ruleset") == ""
        finally:
            on(GATEWAY, "tc qdisc del dev wired root")


def test_what_somebody_else_removed_is_put_up_again() -> None:
    with throttler():
        on(GATEWAY, "nft delete table inet throttler")
        with connection():
            eventually(holds)
            assert elements() and classes()
            assert status()["counters"]["fresh starts"] == 1


def test_a_link_that_was_down_is_watched_on() -> None:
    with throttler():
        run("ip", "-n", GATEWAY, "link", "set", "wired", "down")
        run("ip", "-n", GATEWAY, "link", "set", "wired", "up")
        run("ip", "-n", GATEWAY, "address", "replace", f"{IPV6}/64", "dev", "wired", "nodad")
        with connection():
            eventually(elements)


def test_a_forged_join_gets_no_element() -> None:
    with throttler(), connection():
        eventually(elements)
        link = json.loads(run("ip", "-n", CLIENT, "-j", "link", "show", "dev", "wired"))
        own = json.loads(run("ip", "-n", GATEWAY, "-j", "link", "show", "dev", "wired"))
        neighbour = ("lladdr", link[0]["address"], "dev", "wired")
        run("ip", "-n", GATEWAY, "neighbour", "replace", "10.0.1.77", *neighbour)
        token = status()["sessions"][0]["token"]
        run(*in_namespace(CLIENT, sys.executable, "-c", FORGER, token, "10.0.1.77", own[0]["address"]))
        eventually(lambda: status()["counters"].get("wrong HMACs") == 1)
        assert not [element for element in elements() if "10.0.1.77" in element]
        assert len(status()["sessions"][0]["subflows"]) == 2


def test_an_interface_that_goes_away_ends_the_throttler(tmp_path: Path) -> None:
    run("ip", "-n", GATEWAY, "link", "add", "thr-gone", "type", "veth", "peer", "name", "thr-peer")
    run("ip", "-n", GATEWAY, "link", "set", "thr-gone", "up")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.read_text().replace('"wired"', '"thr-gone"', 1))
    with throttler(policy) as child:
        run("ip", "-n", GATEWAY, "link", "del", "thr-gone")
        assert child.wait(10) == Exit.UNAVAILABLE
        assert child.stderr is not None
        assert child.stderr.read() == "throttler: the interface thr-gone is gone\n"
    assert on(GATEWAY, "nft list ruleset") == ""


def test_without_a_throttler_status_says_so() -> None:
    command = in_namespace(GATEWAY, sys.executable, "-m", "throttler", "status")
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert result.returncode == Exit.UNAVAILABLE
    assert result.stderr == "throttler: no throttler runs in this network namespace\n"
