"""Around the box: a client with two links, and a server that knows nothing of Multipath TCP, in namespaces of its own.

client --wired------ [link: netem 12 Mbit/s, 20 ms] ---- box (10.0.1.1) --- server (203.0.113.2)
       --wireless--- [link: netem  4 Mbit/s, 30 ms] ---- box (10.0.2.1)
"""

import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """An access link: its name is that of its interfaces at the client and at the box."""

    name: str
    number: int
    rate: str
    delay: str

    @property
    def client(self) -> str:
        return f"10.0.{self.number}.2"

    @property
    def box(self) -> str:
        return f"10.0.{self.number}.1"


LINKS = (Link("wired", 1, "12mbit", "20ms"), Link("wireless", 2, "4mbit", "30ms"))
SERVER, TOWARDS_SERVER = "203.0.113.2", "203.0.113.1"


def run(command: str, *, inside: str = "") -> str:
    """Run the words of ``command``, in a namespace or in none; returns what it printed."""
    words = (f"ip netns exec {inside} " if inside else "") + command
    done = subprocess.run(words.split(), capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    """All of it; needs sch_netem."""
    for name in ("client", "server"):
        run(f"ip netns add {name}")
        run(f"ip -n {name} link set lo up")
    _cable("tributary-out", "server", "eth0")
    run(f"ip address add {TOWARDS_SERVER}/24 dev tributary-out")
    run(f"ip -n server address add {SERVER}/24 dev eth0")
    for link in LINKS:
        _access(link)
    first = LINKS[0]
    run(f"ip -n client route add default via {first.box} dev {first.name}")
    for link in LINKS[1:]:
        run(f"ip -n client mptcp endpoint add {link.client} dev {link.name} subflow")
    run("ip -n client mptcp limits set subflows 4 add_addr_accepted 4")


def _access(link: Link) -> None:
    """A namespace with a bridge; the qdiscs are there, so that the box's interface is the throttler's alone."""
    middle = f"link-{link.name}"
    run(f"ip netns add {middle}")
    run(f"ip -n {middle} link add bridge type bridge")
    _cable(link.name, middle, "box")
    run(f"ip -n client link add {link.name} type veth peer name client netns {middle}")
    for interface in ("box", "client"):
        run(f"ip -n {middle} link set {interface} master bridge up")
        run(f"tc -n {middle} qdisc add dev {interface} root netem delay {link.delay} rate {link.rate} limit 100")
    run(f"ip -n {middle} link set bridge up")
    run(f"ip address add {link.box}/24 dev {link.name}")
    run(f"ip -n client address add {link.client}/24 dev {link.name}")
    run(f"ip -n client link set {link.name} up")
    run(f"ip -n client rule add from {link.client} lookup {100 + link.number}")
    run(f"ip -n client route add default via {link.box} dev {link.name} table {100 + link.number}")


def _cable(here: str, namespace: str, there: str) -> None:
    run(f"ip link add {here} type veth peer name {there} netns {namespace}")
    run(f"ip link set {here} up")
    run(f"ip -n {namespace} link set {there} up")
