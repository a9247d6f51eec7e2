"""A download runs while the throttler is steered, stopped, killed and started anew: nothing is lost, nothing left."""

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.netns.throttler_world import (
    CLIENT,
    GATEWAY,
    WIRED_SLOW,
    ask,
    classes,
    connection,
    elements,
    installed,
    status,
    throttler,
    throttler_beside,
)
from tests.netns.world import ENVIRONMENT, eventually, in_namespace, on, process, program, run, said_ready

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

STEPS = 20
PORT = 3129
SEED = 20


class Throttler:
    """The daemon, which is there or not, and what may be done to it."""

    def __init__(self, source: str, policy: Path) -> None:
        self._source = source
        self._policy = policy
        self._stack = ExitStack()
        self.child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def start(self) -> None:
        self.child = self._stack.enter_context(throttler_beside(self._source, self._policy))

    def stop(self) -> None:
        self._end(signal.SIGTERM, 0)

    def kill(self) -> None:
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def _end(self, how: signal.Signals, code: int) -> None:
        assert self.child is not None
        self.child.send_signal(how)
        assert self.child.wait(20) == code
        self._stack.close()
        self.child = None

    def set_rate(self) -> None:
        ask("set", "wired-slow", "path=wired", f"rate={random.randint(1, 20)}mbit")

    def add_rule(self) -> None:
        ask("set", "extra", "subflow_type=join", "rate=9mbit", "direction=both")

    def remove_rule(self) -> None:
        ask("set", "extra", "rate=9mbit")
        ask("unset", "extra")

    def reload(self) -> None:
        ask("reload")

    def hang_up(self) -> None:
        assert self.child is not None
        self.child.send_signal(signal.SIGHUP)

    @property
    def possible(self) -> list[Callable[[], None]]:
        """What can be done now."""
        if self.child is None:
            return [self.start]
        return [self.set_rate, self.add_rule, self.remove_rule, self.reload, self.hang_up, self.stop, self.kill]


@contextmanager
def download() -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """The sender and the receiver, which comes when the sender listens: before, it would be refused."""
    with process(*in_namespace(GATEWAY, *program("hash_sender", str(PORT)))) as sender:
        said_ready(sender)
        with process(*in_namespace(CLIENT, *program("hash_receiver", str(PORT)))) as receiver:
            yield sender, receiver


@pytest.fixture
def daemon(source: str) -> Iterator[Throttler]:
    """Not started yet, and gone after the test."""
    with Throttler(source, WIRED_SLOW) as found:
        yield found


def resets_seen() -> str:
    return on(GATEWAY, "nstat -asz TcpEstabResets MPTcpExtMPRstRx MPTcpExtMPRstTx MPTcpExtMPFastcloseRx")


def counters(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if not line.startswith("#")]


def test_a_download_outlives_twenty_changes_and_the_host_is_as_it_was(daemon: Throttler) -> None:
    random.seed(SEED)
    before, resets = (installed(), on(GATEWAY, "ip -br link")), counters(resets_seen())
    with download() as (sender, receiver):
        assert sender.stdout is not None and receiver.stdout is not None and receiver.stdin is not None
        for _ in range(STEPS):
            random.choice(daemon.possible)()
        if daemon.child is None:
            daemon.start()
        daemon.stop()
        assert (installed(), on(GATEWAY, "ip -br link")) == before
        receiver.stdin.write("enough\n")
        receiver.stdin.flush()
        sum_sent = sender.stdout.readline().strip()
        sum_got, total = receiver.stdout.readline().split()
    assert sum_got == sum_sent and int(total) > 1_000_000
    assert counters(resets_seen()) == resets


def test_what_others_install_meanwhile_stays(daemon: Throttler) -> None:
    before = installed()
    daemon.start()
    on(GATEWAY, "nft table inet somebody { chain c { type filter hook input priority 0; }; }")
    run("ip", "-n", GATEWAY, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
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
        run("ip", "-n", GATEWAY, "link", "del", "other0")
    assert installed() == before


def test_a_killed_daemon_leaves_traffic_flowing_and_no_helper_process(daemon: Throttler) -> None:
    daemon.start()
    daemon.kill()
    eventually(lambda: not tc_processes())
    command = in_namespace(GATEWAY, "ping", "-c", "1", "-W", "2", "10.0.1.2")
    assert subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT).returncode == 0
    daemon.start()
    daemon.stop()


def test_a_killed_tc_is_started_again_and_everything_installed_again(daemon: Throttler) -> None:
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
    pids = run("ip", "netns", "pids", GATEWAY).split()
    return [int(pid) for pid in pids if _name(pid) == "tc"]


def _name(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


def test_an_ifb_device_that_a_kill_left_without_its_qdisc_is_no_obstacle(tmp_path: Path) -> None:
    """What a kill between the two first steps of a start with uploads leaves behind."""
    policy = tmp_path / "policy.toml"
    policy.write_text(WIRED_SLOW.read_text().replace('path = "wired"', 'path = "wired"\ndirection = "upload"'))
    before = installed(), on(GATEWAY, "ip -br link")
    on(GATEWAY, "ip link add tributary-up numtxqueues 1 numrxqueues 1 type ifb")
    try:
        daemon = Throttler("kernel", policy)
        daemon.start()
        daemon.stop()
        assert (installed(), on(GATEWAY, "ip -br link")) == before
    finally:
        run(*in_namespace(GATEWAY, "ip", "link", "del", "tributary-up"), check=False)


def test_a_complaint_of_tc_that_comes_before_the_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(WIRED_SLOW.read_text().replace('path = "wired"', 'path = "wired"\ndirection = "both"'))
    before = installed(), on(GATEWAY, "ip -br link")
    with throttler("kernel", policy) as child:
        with connection() as client:
            (held,) = eventually(classes)
            on(GATEWAY, f"tc class del dev wired classid {held}")
            client.close()
            # Its class can no longer be drained, and nobody has asked how that went.
            eventually(lambda: not elements())
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    assert (installed(), on(GATEWAY, "ip -br link")) == before
