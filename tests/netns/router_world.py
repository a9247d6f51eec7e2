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
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.network import lay, standing_nodes
from experiments.testbed.node import Node
from tests.netns.connections import MPTCP
from tests.netns.world import PATIENCE, Child, asked, connected, eventually, in_namespace, on, program, ready, run
from tributary.api.places import ROUTER

SERVER_4, SERVER_6, PORT = "203.0.113.1", "2001:db8::1", 5124
LINKS = {"dsl": 1, "lte": 2}
DSL, LTE = "10.1.0.2", "10.2.0.2"
BOTH = [DSL, LTE]
"""The router's addresses."""
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
OFTEN = 'interval = "1s"\ntimeout = "1s"\nfailures = 2\n'
PROBED = SETTINGS + f'[probe]\ntarget = "{SERVER_4}:{PORT}"\n{OFTEN}'


class Transfer:
    """A session by which numbered blocks of 8 kB come for as long as it is open."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._count, self._ended = connection, 0, ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            with self._connection.makefile("rb") as stream:
                while block := stream.read(8192):
                    assert block == struct.pack("!Q", self._count) * 1024, "wrong data"
                    self._count += 1
                self._ended = "end"
        except Exception as error:
            self._ended = repr(error)

    def close(self) -> None:
        # A close alone would leave the thread in recv(2).
        with self._connection, suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def blocks(self) -> int:
        """How many blocks have come; raises if the session has ended, or brought something else."""
        assert not self._ended, self._ended
        return self._count

    def goes_on(self, seconds: float = PATIENCE) -> bool:
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

    def on_provider(self, command: str) -> str:
        """Run a command there, words apart by blanks."""
        return on(self.provider, command)

    def on_router(self, command: str, check: bool = True) -> str:
        return on(self.router, command, check=check)

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
        self.on_provider(f"ip link set isp-{link} down")

    def restore(self, link: str) -> None:
        self.on_provider(f"ip link set isp-{link} up")
        # The kernel takes static IPv6 addresses away with the carrier's end here.
        self.on_provider(f"ip addr replace fd00:{LINKS[link]}::1/64 dev isp-{link} nodad")

    def filter(self, *rules: str) -> None:
        """Have the provider go by rules of nft(8), each of which begins with its chain: ``in`` or ``out``."""
        self.on_provider("nft add table inet filter")
        for chain, hook in (("in", "input"), ("out", "output")):
            self.on_provider(f"nft add chain inet filter {chain} {{ type filter hook {hook} priority 0; }}")
        for rule in rules:
            self.on_provider(f"nft insert rule inet filter {rule}")

    def pass_only_udp(self) -> None:
        """The provider lets nothing else in by the links."""
        self.filter(*(f"in iifname isp-{link} meta nfproto ipv4 meta l4proto != udp drop" for link in LINKS))

    def rules(self) -> set[str]:
        """The sources of all rules that have one."""
        both = (*json.loads(self.on_router("ip -j rule")), *json.loads(self.on_router("ip -6 -j rule")))
        return {rule["src"] for rule in both if rule["src"] != "all"}

    def endpoints(self) -> dict[str, Any]:
        """All endpoints by their address."""
        return {each["address"]: each for each in json.loads(self.on_router("ip -j mptcp endpoint"))}

    def sockets(self) -> set[str]:
        """Both ends of every established subflow."""
        lines = self.on_router("ss -HtniO state established").splitlines()
        return {" ".join(line.split()[2:4]) for line in lines if "tcp-ulp-mptcp" in line}

    def subflows(self) -> list[str]:
        """Their local addresses, one each."""
        local = [each.split()[0].rpartition(":")[0].partition("%")[0] for each in self.sockets()]
        return sorted(each.strip("[]").removeprefix("::ffff:") for each in local)

    def has_subflows(self, *wanted: str) -> None:
        """Wait until there is one from each of these addresses, and no other."""
        eventually(lambda: self.subflows() == sorted(wanted))

    def received(self, link: str) -> int:
        return int(json.loads(self.on_router(f"ip -j -s link show {link}"))[0]["stats64"]["rx"]["bytes"])

    def everything(self) -> str:
        """All that the daemon could change."""
        routes = ("route show table all", "-6 route show table all")
        commands = ("rule", "-6 rule", *routes, "mptcp endpoint", "mptcp limits")
        lines = "\n".join(self.on_router(f"ip {each}") for each in commands).splitlines()
        # The kernel's own; some of them come when duplicate address detection has ended.
        return "\n".join(line for line in lines if " table local " not in line)

    def settings(self, text: str = SETTINGS) -> Path:
        path = self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def command(self, *words: str, by: Sequence[str] = ()) -> tuple[str, ...]:
        kept = f"STATE_DIRECTORY={self.directory / 'kept'}"
        return in_namespace(self.router, *by, "env", kept, sys.executable, "-m", "router", *words)

    def tributary(self, *words: str) -> str:
        """What ``tributary`` prints in the router's namespace."""
        return run(*in_namespace(self.router, sys.executable, "-m", "command", *words))

    def answer(self) -> dict[str, Any]:
        """All that the daemon says of itself."""
        return asked(self.router, ROUTER)

    def status(self) -> dict[str, Any]:
        """The links by their names."""
        return {link["name"]: link for link in self.answer()["wan"]}

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @contextmanager
    def daemon(self, text: str = SETTINGS, *by: str, stderr: int | None = None) -> Iterator[Child]:
        """A running daemon, started ``by`` another command; ended as a user would end it, if it has not ended yet."""
        words = ("run", str(self.settings(text)), "--state-directory", str(self.state))
        with ready(*self.command(*words, by=by), stderr=stderr) as child:
            yield child
            child.stop()

    @contextmanager
    def transfer(self, server: str = SERVER_4) -> Iterator[Transfer]:
        with closing(Transfer(connected(self.nodes["router"], server, PORT, protocol=MPTCP))) as transfer:
            assert transfer.goes_on()
            yield transfer

    @contextmanager
    def bonded(self) -> Iterator[Transfer]:
        """A download by both links, beside a daemon."""
        with self.daemon(), self.transfer() as transfer:
            self.has_subflows(*BOTH)
            yield transfer


@contextmanager
def world(directory: Path, links: Sequence[str] = tuple(LINKS)) -> Iterator[World]:
    """Both namespaces and the server, with ``links`` plugged in."""
    with standing_nodes("home-", _NETWORK, directory) as nodes:
        built = World(nodes, directory)
        for link in links:
            built.add_link(link)
        with ready(*in_namespace(built.provider, *program("numbered_blocks", str(PORT)))):
            yield built


@pytest.fixture
def house(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as built:
        yield built
