"""The world of the throttler's tests: a client with two links to a gateway, each a network namespace.

    +--------+ wired              wired +---------+
    |        |.2 ------ 10.0.1.0 ----.1 |         |   fd00:0:0:1::/64, no limit
    | client |                          | gateway |
    |        |.2 ------ 10.0.2.0 ----.1 |         |   fd00:0:0:2::/64, 20 Mbit/s each way
    +--------+ wireless        wireless +---------+

The client opens its first subflow over wired and joins over wireless. The policy WIRED_SLOW holds wired to 5 Mbit/s
from two subflows on.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.node import Node
from tests.netns.world import ENVIRONMENT, eventually, in_namespace, on, process, program, run, said_ready
from tributary.paths import ROOT

WIRED_SLOW = ROOT / "tc-policies" / "wired-slow.toml"
CLIENT, GATEWAY = f"thr-client-{os.getpid()}", f"thr-gateway-{os.getpid()}"
LINKS = {"wired": 1, "wireless": 2}
IPV4, IPV6 = "10.0.1.1", "fd00:0:0:1::1"


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

        for name in (CLIENT, GATEWAY):
            Node(name, Path()).set_congestion_control()
        limit_wireless()
        with process(*in_namespace(GATEWAY, *program("sized_server"))) as server:
            said_ready(server)
            yield
    finally:
        for name in (CLIENT, GATEWAY):
            run("ip", "netns", "del", name, check=False)


def limit_wireless() -> None:
    """Both ways at the client, so that the gateway's interface is free for the throttler."""
    on(CLIENT, "tc qdisc add dev wireless root tbf rate 20mbit burst 15140b limit 150000b")
    run("ip", "-n", CLIENT, "link", "add", "slow", "type", "ifb")
    run("ip", "-n", CLIENT, "link", "set", "slow", "up")
    on(CLIENT, "tc qdisc add dev slow root tbf rate 20mbit burst 15140b limit 150000b")
    chain = "type filter hook ingress device wireless priority 0; meta protocol { ip, ip6 } fwd to slow;"
    run(*in_namespace(CLIENT, "nft", f"table netdev slow {{ chain in {{ {chain} }}; }}"))


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


@pytest.fixture(params=["kernel", "sniffer"])
def source(request: pytest.FixtureRequest) -> str:
    """Both sources see the same."""
    return str(request.param)


@contextmanager
def throttler(source: str, policy: Path = WIRED_SLOW, *options: str) -> Iterator[subprocess.Popen[str]]:
    end_connections()
    with throttler_beside(source, policy, *options) as child:
        yield child


def end_connections(seconds: float = 5.0) -> None:
    """End what the test before left, which would be found and held.

    A connection has ``seconds`` to end by itself. One whose client is gone without the gateway having heard of it,
    since nothing sends a lost reset again, would stay for good.
    """
    established = "state established sport = 3128"
    deadline = time.monotonic() + seconds
    while on(GATEWAY, f"ss -Htn {established}") and time.monotonic() < deadline:
        time.sleep(0.02)
    on(GATEWAY, f"ss -HtnK {established}")
    eventually(lambda: not on(GATEWAY, f"ss -Htn {established}"))


@contextmanager
def throttler_beside(source: str, policy: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A throttler that finds the connections that are there."""
    command = (sys.executable, "-m", "throttler", "run", "--policy", str(policy), "--source", source, *options)
    with process(*in_namespace(GATEWAY, *command), stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        # Nobody reads the log before the end, and who writes into a full pipe waits.
        fcntl.fcntl(child.stderr, fcntl.F_SETPIPE_SZ, 1 << 20)
        if child.stdout.readline() != "ready\n":
            pytest.fail(f"no throttler: {child.stderr.read()}")
        yield child


def ask(*arguments: str, code: int = 0) -> str:
    """What a throttler command in the gateway's namespace prints, on standard error if it is to be refused."""
    command = in_namespace(GATEWAY, sys.executable, "-m", "throttler", *arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60)
    assert result.returncode == code, result.stderr
    return result.stderr if code else result.stdout


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
    with process(*in_namespace(CLIENT, *program("sized_client", address))) as child:
        client = Connection(child)
        # A join comes after the first data (RFC 8684 section 3.1).
        client.request(1000)
        client.finish()
        yield client


def status() -> dict[str, Any]:
    answer = run(*in_namespace(GATEWAY, sys.executable, "-m", "throttler", "status", "--json"))
    return dict(json.loads(answer))


def class_statuses() -> list[dict[str, Any]]:
    return list(status()["classes"])


def elements(family: int = 4) -> list[str]:
    """The 4-tuples in the nft map."""
    text = on(GATEWAY, f"nft list map inet throttler download{family}")
    return re.findall(r"(\S+ \. \d+ \. \S+ \. \d+) : 0x5452", text)


def classes() -> list[str]:
    """The classes of held subflows, also those that are only waiting to be closed."""
    found: list[str] = re.findall(r"class htb (\S+)", on(GATEWAY, "tc class show dev wired"))
    return [name for name in found if not name.startswith("5452:f")]


def installed() -> tuple[str, str]:
    """The rules and qdiscs, without the count of references, which packets on their way hold, too."""
    return on(GATEWAY, "nft list ruleset"), re.sub(r" refcnt \d+", "", on(GATEWAY, "tc qdisc show"))
