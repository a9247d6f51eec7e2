"""Networks as text: a line for each cable, and for each command that nodes, which are network namespaces, are told.

    client:wired 10.0.1.2/24 fd00:1::2/64 -- gateway:wired 10.0.1.1/24 fd00:1::1/64
    gateway: sysctl -qw net.ipv4.ip_forward=1
    client gateway: ip rule add fwmark 1 lookup 99

A cable is a veth pair; both of its ends are up, with these addresses. Commands are words apart by blanks, and run in
the nodes named before the colon, ``*`` being all. Lines count in their order.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path

from experiments.testbed.node import Node, end_processes, run, wait_until

_CABLE = " -- "
_UP_WITHIN = 10.0  # seconds


def node_names(network: str) -> list[str]:
    """The nodes that a network has, in the order in which they are named first. Pure."""
    named: list[str] = []
    for line in _lines(network):
        if _CABLE in line:
            named += [end.split(":")[0] for end in line.split(_CABLE)]
        else:
            named += line.partition(":")[0].split()
    return [name for name in dict.fromkeys(named) if name != "*"]


@contextmanager
def standing_nodes(
    prefix: str, network: str, directory: Path, beside: Mapping[str, Node] | None = None
) -> Iterator[dict[str, Node]]:
    """The nodes of a network, laid out, by their names; at the end they are gone, and all that ran in them.

    The namespaces are called ``PREFIXNAME-PID``. The network's nodes ``beside`` are there already, and stay.
    """
    there, made = dict(beside or {}), dict[str, Node]()
    try:
        for name in node_names(network):
            if name in there:
                continue
            node = Node(f"{prefix}{name}-{os.getpid()}", directory)
            node.create()
            made[name] = node
        lay(network, there | made)
        yield made
    finally:
        take_down_nodes([*made.values()])


def take_down_nodes(nodes: Sequence[Node]) -> None:
    """Remove them: each is tried, though another one fails. All processes end before any namespace: a link that
    vanishes is an error to who still uses it.
    """
    end_processes(nodes)
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.delete)


def lay(network: str, nodes: Mapping[str, Node]) -> None:
    """Lay cables between ``nodes``, which are there, and run the commands; raises CommandError."""
    for (is_cable, named, by_ip), lines in groupby(map(_parsed, _lines(network)), key=lambda parsed: parsed[:3]):
        told = [line for *_, line in lines]
        if is_cable:
            for line in told:
                _cable(line, nodes)
            continue
        for node in nodes.values() if named == "*" else [nodes[name] for name in named.split()]:
            if by_ip:
                node.batch(line.removeprefix("ip ") for line in told)
                continue
            for line in filter(None, told):
                node.run(*line.split())


def _lines(network: str) -> Iterator[str]:
    return (line for line in map(str.strip, network.splitlines()) if line and not line.startswith("#"))


def _parsed(line: str) -> tuple[bool, str, bool, str]:
    """Whether it is a cable; whom the command is for, whether ip(8) takes it among others, and what it is. Pure."""
    if _CABLE in line:
        return True, "", False, line
    named, _, command = line.partition(":")
    command = command.strip()
    # A batch has no lines with options in front, such as -6.
    return False, named, command.startswith("ip ") and not command.startswith("ip -"), command


def _cable(line: str, nodes: Mapping[str, Node]) -> None:
    ends = [end.split() for end in line.split(_CABLE)]
    (one, its), (other, others) = (end[0].split(":") for end in ends)
    pair = ["name", its, "netns", nodes[one].namespace, "type", "veth", "peer", "name", others]
    run(["ip", "link", "add", *pair, "netns", nodes[other].namespace])
    here = [(nodes[one], its), (nodes[other], others)]
    for (node, interface), (_, *addresses) in zip(here, ends, strict=True):
        added = (f"address add {address} dev {interface} nodad" for address in addresses)
        node.batch([*added, f"link set {interface} up"])
    # Until the kernel has taken note of the carrier, the interface drops all frames (net/core/link_watch.c).
    wait_until(lambda: all(_is_up(*end) for end in here), _UP_WITHIN, f"{line}: not up", every=0.01)


def _is_up(node: Node, interface: str) -> bool:
    return "state UP" in node.ip("link", "show", "dev", interface)
