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

from experiments.testbed.network import standing_nodes
from tests.netns.world import ENVIRONMENT, asked, eventually, in_namespace, on, process, program, said_ready
from throttler.service.control import CONTROL
from tributary.paths import ROOT

WIRED_SLOW = ROOT / "tc-policies" / "wired-slow.toml"
CLIENT, GATEWAY = f"thr-client-{os.getpid()}", f"thr-gateway-{os.getpid()}"
LINKS = {"wired": 1, "wireless": 2}
IPV4, IPV6 = "10.0.1.1", "fd00:0:0:1::1"


_LINK = """
client:{link} 10.0.{number}.2/24 fd00:0:0:{number}::2/64 -- gateway:{link} 10.0.{number}.1/24 fd00:0:0:{number}::1/64
client: ip rule add from 10.0.{number}.2 table {number}
client: ip -6 rule add from fd00:0:0:{number}::2 table {number}
client: ip route add default via 10.0.{number}.1 dev {link} table {number}
client: ip route add default via fd00:0:0:{number}::1 dev {link} table {number}
client: ip mptcp endpoint add 10.0.{number}.2 dev {link} subflow
client: ip mptcp endpoint add fd00:0:0:{number}::2 dev {link} subflow
"""
# Wireless is slow both ways at the client, so that the gateway's interface is free for the throttler.
_SLOW = """
client gateway: ip mptcp limits set subflow 4 add_addr_accepted 4
client: tc qdisc add dev wireless root tbf rate 20mbit burst 15140b limit 150000b
client: ip link add slow up type ifb
client: tc qdisc add dev slow root tbf rate 20mbit burst 15140b limit 150000b
client: nft add table netdev slow
client: nft add chain netdev slow in { type filter hook ingress device wireless priority 0; }
client: nft add rule netdev slow in meta protocol { ip, ip6 } fwd to slow
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both namespaces, and the server in the gateway's."""
    network = "".join(_LINK.format(link=link, number=number) for link, number in LINKS.items()) + _SLOW
    with (
        standing_nodes("thr-", network, tmp_path_factory.mktemp("throttler")),
        process(*in_namespace(GATEWAY, *program("sized_server"))) as server,
    ):
        said_ready(server)
        yield


@pytest.fixture(params=["kernel", "sniffer"])
def source(request: pytest.FixtureRequest) -> str:
    """Both sources see the same."""
    return str(request.param)


KERNEL = pytest.mark.parametrize("source", ["kernel"])
"""For what is done with sessions, whoever has seen them."""


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


def ask(*arguments: str, code: int = 0, module: str = "throttler") -> str:
    """What a throttler command in the gateway's namespace prints, on standard error if it is to be refused."""
    command = in_namespace(GATEWAY, sys.executable, "-m", module, *arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60)
    assert result.returncode == code, result.stderr
    return result.stderr if code else result.stdout


def tributary(*words: str, code: int = 0) -> str:
    """The same for ``tributary``."""
    return ask(*words, code=code, module="command")


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
    return asked(GATEWAY, CONTROL)


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
    """The rules and qdiscs, without what packets on their way change: references, and those that no class had."""
    qdiscs = re.sub(r" (refcnt|direct_packets_stat) \d+", "", on(GATEWAY, "tc qdisc show"))
    return on(GATEWAY, "nft list ruleset"), qdiscs
