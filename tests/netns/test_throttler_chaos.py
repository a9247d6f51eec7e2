"""A download runs while the throttler is steered, stopped, killed and started anew: nothing is lost, nothing left."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.netns.connections import MPTCP
from tests.netns.links_world import AT_CLIENT, GATEWAY, IPV4, connection
from tests.netns.router_world import Transfer
from tests.netns.throttler_world import (
    TEXT,
    WIRED_SLOW,
    ask,
    classes,
    elements,
    installed,
    status,
    throttler,
    throttler_beside,
)
from tests.netns.world import Child, connected, eventually, in_namespace, on, program, ready, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

STEPS = 20
PORT = 3129
SEED = 20


class Throttler(ExitStack):
    """The daemon, which is there or not, and what may be done to it."""

    def __init__(self, source: str, policy: Path | str = WIRED_SLOW) -> None:
        super().__init__()
        self._source, self._policy = source, policy
        self.child: Child | None = None

    def start(self) -> None:
        self.child = self.enter_context(throttler_beside(self._source, self._policy))

    def stop(self) -> None:
        self._end(signal.SIGTERM, 0)

    def kill(self) -> None:
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def _end(self, how: signal.Signals, code: int) -> None:
        assert self.child is not None
        assert self.child.stop(how, 20) == code
        self.close()
        self.child = None

    def remove_rule(self) -> None:
        ask("set", "extra", "rate=9mbit")
        ask("unset", "extra")

    @property
    def possible(self) -> list[Callable[[], object]]:
        """What can be done now."""
        if self.child is None:
            return [self.start]
        return [
            partial(ask, "set", "wired-slow", "path=wired", f"rate={random.randint(1, 20)}mbit"),
            partial(ask, "set", "extra", "subflow_type=join", "rate=9mbit", "direction=both"),
            partial(ask, "reload"),
            partial(self.child.send_signal, signal.SIGHUP),
            *(self.remove_rule, self.stop, self.kill),
        ]


@contextmanager
def downloading() -> Iterator[Transfer]:
    """A session whose blocks come in their order, and none of them twice."""
    with (
        ready(*in_namespace(GATEWAY, *program("numbered_blocks", str(PORT)))),
        closing(Transfer(connected(AT_CLIENT, IPV4, PORT, protocol=MPTCP))) as download,
    ):
        yield download


@pytest.fixture
def daemon(source: str) -> Iterator[Throttler]:
    """Not started yet, and gone after the test."""
    with Throttler(source) as found:
        yield found


def resets() -> list[str]:
    text = on(GATEWAY, "nstat -asz TcpEstabResets MPTcpExtMPRstRx MPTcpExtMPRstTx MPTcpExtMPFastcloseRx")
    return [line.split()[1] for line in text.splitlines() if not line.startswith("#")]


def test_a_download_outlives_twenty_changes_and_the_host_is_as_it_was(daemon: Throttler) -> None:
    random.seed(SEED)
    before, resets_before = installed(), resets()
    with downloading() as download:
        for _ in range(STEPS):
            random.choice(daemon.possible)()
        if daemon.child is None:
            daemon.start()
        daemon.stop()
        assert installed() == before
        assert download.goes_on() and download.blocks() > 200
        assert resets() == resets_before


def test_what_others_install_meanwhile_stays(daemon: Throttler) -> None:
    before = installed()
    daemon.start()
    on(GATEWAY, "nft table inet somebody { chain c { type filter hook input priority 0; }; }")
    on(GATEWAY, "ip link add other0 type veth peer name other1")
    on(GATEWAY, "tc qdisc add dev other0 root handle 7: tbf rate 1mbit burst 5000 limit 10000")
    try:
        theirs = on(GATEWAY, "nft list table inet somebody"), on(GATEWAY, "tc qdisc show dev other0")
        daemon.kill()
        daemon.start()
        ask("set", "both", "path=wired", "direction=both", "rate=3mbit")
        daemon.stop()
        assert (on(GATEWAY, "nft list ruleset"), on(GATEWAY, "tc qdisc show dev other0")) == theirs
    finally:
        on(GATEWAY, "nft delete table inet somebody")
        on(GATEWAY, "ip link del other0")
    assert installed() == before


def test_a_killed_daemon_leaves_traffic_flowing_and_no_tc_and_a_killed_tc_is_started_again(daemon: Throttler) -> None:
    daemon.start()
    daemon.kill()
    eventually(lambda: not tc_processes())
    on(GATEWAY, "ping -c 1 -W 2 10.0.1.2")
    daemon.start()
    (pid,) = tc_processes()
    os.kill(pid, signal.SIGKILL)
    with connection():
        eventually(lambda: status()["classes"])
        assert elements() and classes()
        assert status()["counters"]["resets"] == 1
    daemon.stop()


def tc_processes() -> list[int]:
    """Processes of tc in the gateway's namespace."""
    found = []
    for pid in run("ip", "netns", "pids", GATEWAY).split():
        with suppress(FileNotFoundError):
            found += [int(pid)] * (Path(f"/proc/{pid}/comm").read_text() == "tc\n")
    return found


def directed(direction: str) -> str:
    return TEXT.replace('path = "wired"', f'path = "wired"\ndirection = "{direction}"')


def test_an_ifb_device_that_a_kill_left_without_its_qdisc_is_no_obstacle() -> None:
    """What a kill between the two first steps of a start with uploads leaves behind."""
    before = installed()
    on(GATEWAY, "ip link add tributary-up numtxqueues 1 numrxqueues 1 type ifb")
    try:
        daemon = Throttler("kernel", directed("upload"))
        daemon.start()
        daemon.stop()
        assert installed() == before
    finally:
        on(GATEWAY, "ip link del tributary-up", check=False)


def test_a_complaint_of_tc_that_comes_before_the_stop_leaves_nothing_behind() -> None:
    before = installed()
    with throttler("kernel", directed("both")) as child:
        with connection() as client:
            (held,) = eventually(classes)
            on(GATEWAY, f"tc class del dev wired classid {held}")
            client.close()
            # Its class can no longer be drained, and nobody has asked how that went.
            eventually(lambda: not elements())
        assert child.stop(seconds=20) == 0
    assert installed() == before
