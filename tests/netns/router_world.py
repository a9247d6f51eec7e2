"""The world of the home router's tests: a router with two links to a provider, each a network namespace.

    +--------+ dsl                  isp-dsl +----------+
    |        |.2 ------- 10.1.0.0 --------.1|          |   fd00:1::/64
    | router |                              | provider |   server at 203.0.113.1 and 2001:db8::1, port 5124
    |        |.2 ------- 10.2.0.0 --------.1|          |   fd00:2::/64
    +--------+ lte                  isp-lte +----------+

The server speaks MPTCP and sends 8 kB each 5 ms, 13 Mbit/s, until the client closes. The addresses and default routes
of the router are put there as a DHCP client would.
"""

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.testbed.network import lay, standing_nodes
from experiments.testbed.node import Node
from router.control import CONTROL
from tests.netns.world import asked, eventually, in_namespace, on, process, program, run, said_ready

SERVER_4, SERVER_6, PORT = "203.0.113.1", "2001:db8::1", 5124
LINKS = {"dsl": 1, "lte": 2}
_NETWORK = f"""
router:
provider: ip address add {SERVER_4}/32 dev lo
provider: ip address add {SERVER_6}/128 dev lo
provider: ip mptcp limits set subflow 8 add_addr_accepted 0
"""
_LINK = """
router:{link} fd00:{number}::2/64 -- provider:isp-{link} 10.{number}.0.1/24 fd00:{number}::1/64
router: ip -6 route add default via fd00:{number}::1 dev {link} proto ra metric {metric}
"""
SETTINGS = """
[wan.dsl]
interface = "dsl"

[wan.lte]
interface = "lt*"
"""
PROBED = SETTINGS + f'[probe]\ntarget = "{SERVER_4}:{PORT}"\ninterval = "1s"\ntimeout = "1s"\nfailures = 2\n'


@dataclass(frozen=True)
class Transfer:
    """A session that downloads for as long as it is open."""

    child: subprocess.Popen[str]

    def blocks(self) -> int:
        """How many blocks have come; raises if the session has ended, or brought something else."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def goes_on(self, seconds: float = 5.0) -> bool:
        """Whether blocks come that were not even sent yet: a quarter of a second's."""
        wanted = self.blocks() + 50
        return bool(eventually(lambda: self.blocks() >= wanted, seconds))


@dataclass(frozen=True)
class World:
    """Both namespaces. ``directory`` is for files of the test."""

    nodes: Mapping[str, Node]
    directory: Path

    @property
    def router(self) -> str:
        return self.nodes["router"].namespace

    @property
    def provider(self) -> str:
        return self.nodes["provider"].namespace

    def on(self, namespace: str, command: str, check: bool = True) -> str:
        """Run a command in a namespace, words apart by blanks."""
        return on(namespace, command, check=check)

    def on_router(self, command: str, check: bool = True) -> str:
        return self.on(self.router, command, check)

    def add_link(self, link: str) -> None:
        """Plug a link in, with its addresses and default routes."""
        number = LINKS[link]
        lay(_LINK.format(link=link, number=number, metric=1023 + number), self.nodes)
        self.lease(link, f"10.{number}.0.2")

    def lease(self, link: str, address: str) -> None:
        """Give a link an IPv4 address and a default route, as a DHCP client does."""
        number = LINKS[link]
        self.on_router(f"ip addr add {address}/24 dev {link}")
        default = f"default via 10.{number}.0.1 dev {link} proto dhcp src {address} metric {1023 + number}"
        self.on_router(f"ip route add {default}")

    def cut(self, link: str) -> None:
        """Take the carrier away, at the other end."""
        self.on(self.provider, f"ip link set isp-{link} down")

    def restore(self, link: str) -> None:
        self.on(self.provider, f"ip link set isp-{link} up")
        # The kernel takes static IPv6 addresses away with the carrier's end here.
        self.on(self.provider, f"ip addr replace fd00:{LINKS[link]}::1/64 dev isp-{link} nodad")

    def rules(self) -> set[str]:
        """The sources of all rules that have one."""
        both = (*json.loads(self.on_router("ip -j rule")), *json.loads(self.on_router("ip -6 -j rule")))
        return {rule["src"] for rule in both if rule["src"] != "all"}

    def endpoints(self) -> dict[str, Any]:
        """All endpoints by their address."""
        return {each["address"]: each for each in json.loads(self.on_router("ip -j mptcp endpoint"))}

    def subflows(self) -> list[str]:
        """The local addresses of all established subflows, one each."""
        lines = self.on_router("ss -HtniO state established").splitlines()
        local = [line.split()[2].rpartition(":")[0].partition("%")[0] for line in lines if "tcp-ulp-mptcp" in line]
        return sorted(each.strip("[]").removeprefix("::ffff:") for each in local)

    def received(self, link: str) -> int:
        """Bytes that have come by a link."""
        return int(json.loads(self.on_router(f"ip -j -s link show {link}"))[0]["stats64"]["rx"]["bytes"])

    def everything(self) -> str:
        """All that the daemon could change."""
        routes = ("route show table all", "-6 route show table all")
        commands = ("rule", "-6 rule", *routes, "mptcp endpoint", "mptcp limits")
        lines = "\n".join(self.on_router(f"ip {each}") for each in commands).splitlines()
        # The kernel's own; some of them come when duplicate address detection has ended.
        return "\n".join(line for line in lines if " table local " not in line)

    def settings(self, text: str = SETTINGS) -> Path:
        """A settings file."""
        path = self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def command(self, *words: str) -> tuple[str, ...]:
        """A command of ``router`` in the router's namespace."""
        kept = f"STATE_DIRECTORY={self.directory / 'kept'}"
        return in_namespace(self.router, "env", kept, sys.executable, "-m", "router", *words)

    def tributary(self, *words: str) -> str:
        """What ``tributary`` prints in the router's namespace."""
        return run(*in_namespace(self.router, sys.executable, "-m", "command", *words))

    def answer(self) -> dict[str, Any]:
        """All that the daemon says of itself."""
        return asked(self.router, CONTROL)

    def status(self) -> dict[str, Any]:
        """The links by their names."""
        return {link["name"]: link for link in self.answer()["wan"]}

    @contextmanager
    def daemon(self, text: str = SETTINGS) -> Iterator[subprocess.Popen[str]]:
        """A running daemon; ended as a user would end it."""
        words = ("run", str(self.settings(text)), "--state-directory", str(self.directory / "state"))
        with process(*self.command(*words)) as child:
            yield said_ready(child)
            stop(child)

    @contextmanager
    def transfer(self, server: str = SERVER_4) -> Iterator[Transfer]:
        """A download that has begun."""
        with process(*in_namespace(self.router, *program("block_reader", server, str(PORT)))) as child:
            transfer = Transfer(said_ready(child))
            assert transfer.goes_on()
            yield transfer


def stop(child: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> int:
    """End a daemon; returns its exit code."""
    child.send_signal(number)
    return child.wait(10)


@contextmanager
def world(directory: Path, links: Sequence[str] = tuple(LINKS)) -> Iterator[World]:
    """Both namespaces and the server, with ``links`` plugged in."""
    with standing_nodes("home-", _NETWORK, directory) as nodes:
        built = World(nodes, directory)
        for link in links:
            built.add_link(link)
        with process(*in_namespace(built.provider, *program("numbered_blocks", str(PORT)))) as server:
            said_ready(server)
            yield built
