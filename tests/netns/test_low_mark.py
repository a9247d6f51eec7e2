"""What lies unsent in a session's subflows, by the kernel and by our program in it."""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.connections import MPTCP
from tests.netns.world import connected, eventually, listener_at, needs, needs_root, serving, sysctl
from tributary.kernel import low_mark
from tributary.paths import ROOT

pytestmark = [needs_root, needs("clang", "ip", "ss", "tc")]

NETWORK = """
sender:first 10.77.1.1/24 -- receiver:first 10.77.1.2/24
sender:second 10.77.2.1/24 -- receiver:second 10.77.2.2/24
"""
FIRST, SECOND = "10.77.1.1", "10.77.2.1"
MARK, NO_MARK = 16_384, 2**32 - 1
OBEYED, EXEMPT = 40_000, 45_000
"""Bytes: less than the first are unsent at a mark; without it there are times when more than the second are."""


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Who sends, and who receives."""
    with ExitStack() as made:
        nodes = made.enter_context(standing_nodes("mark-", NETWORK, tmp_path))
        sender, receiver = nodes["sender"], nodes["receiver"]
        sender.ip("mptcp", "endpoint", "add", "10.77.2.1", "dev", "second", "subflow")
        receiver.ip("route", "add", "10.77.2.1/32", "dev", "second")
        for node in nodes.values():
            node.ip("mptcp", "limits", "set", "subflows", "1")
        sender.ip("route", "add", "10.77.1.2/32", "via", "10.77.2.2", "dev", "second", "table", "2")
        sender.ip("rule", "add", "from", "10.77.2.1", "lookup", "2")
        for dev in ("first", "second"):
            sender.run("tc", "qdisc", "replace", "dev", dev, "root", "handle", "1:", "htb", "default", "1")
            sender.run("tc", "class", "add", "dev", dev, "parent", "1:", "classid", "1:1", "htb", "rate", "4mbit")
        marks: dict[str, str | int] = {
            "net__ipv4__tcp_notsent_lowat": MARK,
            "net__ipv4__tcp_wmem": "4096 2097152 16777216",
        }
        made.enter_context(sysctl(sender, **marks))
        yield sender, receiver


@contextmanager
def sending(sender: Node, receiver: Node) -> Iterator[None]:
    """A session that always has something to send."""

    def discard(connection: socket.socket) -> None:
        while connection.recv(1 << 20):
            pass

    def send(connection: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection.sendall(bytes(1 << 20))

    with (
        serving(listener_at(receiver, 80, "10.77.1.2"), discard),
        connected(sender, "10.77.1.2", 80, protocol=MPTCP) as connection,
    ):
        threading.Thread(target=send, args=(connection,), daemon=True).start()
        yield
        connection.shutdown(socket.SHUT_RDWR)


def most_unsent(sender: Node, path: str, looks: int = 10) -> int:
    """Bytes of the subflow that begins at ``path``, the most of so many looks, a twentieth of a second each."""
    found = []
    for _ in range(looks):
        time.sleep(0.05)
        printed = sender.run("ss", "-Htni", "src", path)
        found += [int(number) for number in re.findall(r"notsent:(\d+)", printed)]
    return max(found, default=0)


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (6, 7), reason="subflows obey it before Linux 6.7"
)
def test_subflows_obey_the_low_mark_while_the_program_is_attached(ends: tuple[Node, Node]) -> None:
    sender, _ = ends
    with sending(*ends):
        eventually(lambda: most_unsent(sender, SECOND) > EXEMPT)
    with low_mark.obeyed(low_mark.compiled((ROOT / low_mark.SOURCE).read_bytes())):
        with sending(*ends):
            # The first burst may be there before the program is asked.
            eventually(lambda: 0 < most_unsent(sender, FIRST) < OBEYED and 0 < most_unsent(sender, SECOND) < OBEYED)
            assert most_unsent(sender, SECOND, 40) < OBEYED
        # Where a namespace has no mark all is as the kernel has it.
        with sysctl(sender, net__ipv4__tcp_notsent_lowat=NO_MARK), sending(*ends):
            eventually(lambda: most_unsent(sender, SECOND) > EXEMPT)
    with sending(*ends):
        eventually(lambda: most_unsent(sender, SECOND) > EXEMPT)
