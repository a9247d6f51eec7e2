"""Who is where in a hand-off, and what runs there.

                         10.7.1.0/24
    client .2 ---- .1 switch .1 ---- .2 front (the service, port 80)
        10.7.0.0/24     | | .1 ------ .2 back end a    10.7.2.0/24
                        | .1 -------- .2 back end b    10.7.3.0/24

Everybody routes by the switch. What the client gets from back ends never passes the cable to the front.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed import converter, native
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process, run
from experiments.testbed.server import start_nginx
from experiments.testbed.usage import bytes_passed
from tributary.paths import ROOT

SERVICE = "10.7.1.2:80"
TOGETHER = "10.7.0.1:80"
"""The service where the front is on the switch's machine."""
URL = f"http://{SERVICE}/"
METRICS = "127.0.0.1:9465"
"""The front's, on its own machine, where the playbook has them and the console asks."""
BACK_ENDS = ("a", "b")
MOST_BACK_ENDS = 8
_FRONTS_PORT, _HAND_OFF_PORT, _HTTP_PORT, _SWITCH_PORT = 7401, 7400, 80, 7402
_NETS = {"client": "10.7.0", "front": "10.7.1"} | {
    chr(ord("a") + number): f"10.7.{2 + number}" for number in range(MOST_BACK_ENDS)
}

_NGINX_ADDRESS = "127.0.0.1:8080"
_NGINX = """\
    sendfile on;
    keepalive_requests 1000000;
    server {{
        listen {local};
        listen {address}:80{version};
        root {objects};
        add_header X-Served-By nginx;
    }}
"""
RULES = """\
[[handoff.rules]]
path = "/a/"
to = ["a"]
[[handoff.rules]]
path = "/b/"
to = ["b"]
[[handoff.rules]]
path = "/relayed/"
to = ["a"]
relay = true
[[handoff.rules]]
to = ["a", "b"]
"""

_BURST = 64 << 10
"""Bytes: a segment as large as the kernel makes them leaves at once, and no more than that."""
_QUEUE = 1_000_000
"""Bytes that wait at an end of a link."""


@dataclass(frozen=True)
class Network:
    """The nodes, by their names: client, switch, front and the back ends; and a folder for what they read and write."""

    nodes: dict[str, Node]
    directory: Path
    back_ends: Sequence[str] = BACK_ENDS

    @property
    def programs(self) -> native.HandOff:
        return native.hand_off()

    @property
    def switch_for_fronts(self) -> str:
        """Where the switch takes fronts in."""
        return f"{_NETS['front']}.1:{_SWITCH_PORT}"

    def address(self, name: str) -> str:
        """Of a node other than the switch."""
        return f"{_NETS[name]}.2"

    def hand_off(self, name: str) -> str:
        """Where connections go on at a back end."""
        return f"{self.address(name)}:{_HAND_OFF_PORT}"

    def fronts(self, name: str) -> str:
        """Where a back end takes fronts in."""
        return f"{self.address(name)}:{_FRONTS_PORT}"

    def http(self, name: str) -> str:
        """Where a back end serves plain HTTP."""
        return f"{self.address(name)}:{_HTTP_PORT}"

    def passed(self, name: str) -> tuple[int, int]:
        """Bytes that a node other than the switch has received, and sent, by its cable."""
        return bytes_passed(self.nodes[name].run("cat", "/proc/net/dev"))["eth0"]

    def identity(self, name: str) -> Path:
        """The folder with a node's certificate."""
        return self.directory / "authority" / name

    def objects(self, name: str) -> Path:
        """The folder that a back end serves."""
        return self.directory / f"objects-{name}"

    def start_switch(self, *options: str, together: bool = False) -> Process:
        """The switch, ready, with more ``options``; ``together`` with a front on its own machine."""
        back_ends = [f"--back-end={self.hand_off(name)}=to-{name}" for name in self.back_ends]
        service = TOGETHER if together else SERVICE
        where = ("--fronts", self._switch(together), "--identity", str(self.identity("switch")))
        what = ("--clients", "to-client", "--service", service, *back_ends, *options)
        command = (str(self.programs.switch), *where, *what)
        return self.nodes["switch"].start("switch", command).wait_until_ready()

    def start_back_end(self, name: str, *options: str, relays: bool = False) -> Process:
        """A back end, ready, with more ``options``: it serves its folder of objects, or ``relays`` to nginx."""
        address = self.address(name)
        objects = ("--objects", str(self.objects(name)), "--http", f"{address}:{_HTTP_PORT}")
        what = ("--relay", _NGINX_ADDRESS) if relays else objects
        where = ("--fronts", self.fronts(name), "--hand-off", self.hand_off(name))
        drain = () if "--drain" in options else ("--drain", "1")
        command = (str(self.programs.back_end), *where, "--identity", str(self.identity(name)), *what, *drain, *options)
        return self.nodes[name].start(name, command).wait_until_ready()

    def start_nginx(self, name: str, *, http2: bool = False) -> Process:
        """An nginx with the folder of objects on a back end's loopback, and at its own address for what is relayed.

        There it speaks ``http2`` by prior knowledge.
        """
        # Since 1.25.1 there is a directive for it; this is still understood.
        version = " http2" if http2 else ""
        where = {"local": _NGINX_ADDRESS, "address": self.address(name), "objects": self.objects(name)}
        return start_nginx(self.nodes[name], f"nginx-{name}", _NGINX.format(version=version, **where))

    def _switch(self, together: bool) -> str:
        """Where it takes fronts in."""
        return str(self.directory / "switch.sock") if together else self.switch_for_fronts

    def start_front(
        self,
        rules: str = RULES,
        *,
        together: bool = False,
        relay_below: str = "0B",
        instead: Mapping[str, str] | None = None,
    ) -> Process:
        """The front, ready, on its own machine or ``together`` with the switch; the others need not be there.

        It hands over all that can be, or relays what is expected to be smaller than ``relay_below``. Some addresses of
        theirs can have others in their place: ``instead``.
        """
        back_ends = [
            {"name": each, "fronts": self.fronts(each), "hand_off": self.hand_off(each), "http": self.http(each)}
            for each in self.back_ends
        ]
        handoff = {
            "switch": self._switch(together),
            "identity": str(self.identity("front")),
            "relay_below": relay_below,
            "back_ends": back_ends,
            **tomllib.loads(rules)["handoff"],
        }
        node = self.nodes["switch" if together else "front"]
        text = converter.settings(
            node,
            "front",
            [f"{_NETS['client']}.0/24"],
            {"kind": "handoff", "address": TOGETHER if together else SERVICE},
            targets={"allow": ["10.7.0.0/16"]},
            metrics={"address": METRICS},
            log={"access": f"{self.directory}/access.log"},
            handoff=handoff,
        )
        for address, other in (instead or {}).items():
            text = text.replace(f'"{address}"', f'"{other}"')
        return converter.start(node, "front", text)


@contextmanager
def standing_network(name: str, directory: Path, back_ends: Sequence[str] = BACK_ENDS) -> Iterator[Network]:
    """The nodes with their cables and certificates, and nothing that runs; at the end they are gone. ``back_ends`` are
    some of a to h.

    Namespaces are called ``NAME-NODE-PID``.
    """
    with standing_nodes(f"{name}-", "".join(map(_cable, ("client", "front", *back_ends))), directory) as nodes:
        nodes["switch"].sysctl(net__ipv4__ip_forward=1)
        network = Network(nodes, directory, back_ends)
        for each in ("front", "switch", *back_ends):
            _enrol(network, each)
        for each in back_ends:
            network.objects(each).mkdir()
        yield network


def _cable(name: str) -> str:
    net = _NETS[name]
    return f"switch:to-{name} {net}.1/24 -- {name}:eth0 {net}.2/24\n{name}: ip route add default via {net}.1\n"


def _enrol(network: Network, name: str) -> None:
    purposes = {"front": ["--handoff-front"], "switch": ["--handoff-switch", f"{_NETS['front']}.1"]}
    purpose = purposes.get(name) or ["--handoff-back-end", network.address(name)]
    authority = ("--authority", str(network.directory / "authority"))
    run([str(ROOT / "scripts/overlay"), "enrol", name, *authority, *purpose])


def shape(network: Network, rate: int, clients_links: int) -> None:
    """Links of ``rate`` bit/s to the front and to each back end; the client has so many of them, bonded to one."""
    for name in ("client", "front", *network.back_ends):
        of_this = rate * (clients_links if name == "client" else 1)
        for node, device in ((network.nodes["switch"], f"to-{name}"), (network.nodes[name], "eth0")):
            for words in commands(device, of_this):
                node.run("tc", *words.split())


def commands(device: str, rate: int) -> Iterator[str]:
    """What tc(8) is told so that no more than ``rate`` bit/s leave by ``device``. Pure."""
    yield f"qdisc replace dev {device} root handle 1: htb default 1"
    yield (
        f"class replace dev {device} parent 1: classid 1:1"
        f" htb rate {rate}bit ceil {rate}bit burst {_BURST} cburst {_BURST} quantum {_BURST}"
    )
    yield f"qdisc replace dev {device} parent 1:1 handle 2: bfifo limit {_QUEUE}"
