"""What does it cost to steer 1,000 sessions, and how soon does a path that has become bad become a backup?

Both run over 50 Mbit/s of 20 ms beside 50 Mbit/s of 200 ms, with the kernel's own buffers. The cost is the processor
time of the throttler beside so many sessions of two subflows, each of which sends something twice a second, in percent
of one processor. For the other reading the second link of a single download begins to lose packets at random; the time
runs from there until the kernel says that its subflow is a backup. Decisions are those about that download in a minute.
"""

import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from pydantic import Field

from experiments.study.blueprint import TestbedBlueprint
from experiments.study.experiment import Experiment, Repeat, Seconds
from experiments.study.readings import Point, Reading
from experiments.testbed import native
from experiments.testbed.appliance import start_steering, throttler_status
from experiments.testbed.build import Testbed
from experiments.testbed.impairment import lossy
from experiments.testbed.node import wait_until
from experiments.testbed.server import start_origin
from experiments.testbed.topology import LinkSettings, Profile
from experiments.testbed.usage import Clocks
from tributary.mptcp.info import IPPROTO_MPTCP
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Duration, PositiveRate

_COST, _REACTION = "cost", "reaction"
_MADE_BACKUP = re.compile(r"tcp-ulp-mptcp flags:[A-Za-z]*b")
_PORT = 5001
_MOST_FILES = 8192
_WARM_UP, _PATIENCE = 5.0, 60.0
"""Seconds until a download is measured, and for which a decision is waited for."""
_LINKS = {
    name: LinkSettings(rate=PositiveRate.parse("50mbit"), delay=Duration.parse(delay), queue=queue)
    for name, delay, queue in (("good", "10ms", 100), ("bad", "100ms", 800))
}


class Steered(Experiment):
    """Beside so many ``sessions`` the throttler is measured for ``seconds``; the bad link loses ``loss`` percent."""

    claim = "What does it cost to steer 1,000 sessions, and how soon is a bad path a backup?"
    quick = {"repeat": 1, "sessions": 200, "seconds": 5.0}
    at = [{"what": what} for what in (_COST, _REACTION)]
    ground = TestbedBlueprint(Profile(links=_LINKS), tuned=False, sysctls={"net.mptcp.pm_type": "1"})
    quotes = ("cpu_pct_1000_sessions", "reaction_ms", "decisions_a_minute")

    repeat: Repeat = 3
    sessions: int = Field(default=1000, ge=1, le=3000, description="a whole number of sessions from 1 to 3000")
    seconds: Seconds = 20.0
    loss: int = Field(default=3, ge=1, le=100, description="a whole number of percent from 1 to 100")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        found = self._cost(testbed) if point["what"] == _COST else self._reaction(testbed)
        return Reading(point, repetition, found)

    def _cost(self, testbed: Testbed) -> dict[str, float]:
        with start_steering(testbed) as throttler, _sessions(testbed, self.sessions):
            clocks, begun = Clocks([throttler.popen.pid]), time.monotonic()
            time.sleep(self.seconds)
            percent = 100 * clocks.seconds() / (time.monotonic() - begun)
            subflows = throttler_status(testbed).subflows_total
        if subflows < 2 * self.sessions:
            raise CommandError(Exit.SYSTEM, f"{subflows} subflows are there, of {self.sessions} sessions with two each")
        return {"cpu_pct_1000_sessions": percent * 1000 / self.sessions}

    def _reaction(self, testbed: Testbed) -> dict[str, float]:
        at = f"{testbed.topology.PROXY4}:{_PORT}"
        download = native.load("flow", "--to", at, "--mptcp", "--seconds", str(3 * _PATIENCE))
        with (
            start_steering(testbed),
            start_origin(testbed.gateway, at, "--mptcp"),
            testbed.client.start("download", download),
        ):
            time.sleep(_WARM_UP)
            _wait_until(testbed, is_backup=False)
            with lossy(testbed, testbed.topology.links[1], self.loss):
                took = _wait_until(testbed, is_backup=True)
                time.sleep(max(0.0, _PATIENCE - took))
            decided = throttler_status(testbed).steering.decisions
        return {"reaction_ms": 1000 * took, "decisions_a_minute": float(sum(decided.values()))}


@contextmanager
def _sessions(testbed: Testbed, count: int) -> Iterator[None]:
    """So many sessions, over which the gateway sends a little for the length of the block."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _MOST_FILES), most))
    over = threading.Event()
    with ExitStack() as stack:
        ends = _connected(testbed, stack, count)
        thread = threading.Thread(target=_trickle, args=(ends, over))
        thread.start()
        try:
            time.sleep(_WARM_UP)
            yield
        finally:
            over.set()
            thread.join()


def _connected(testbed: Testbed, stack: ExitStack, count: int) -> list[tuple[socket.socket, socket.socket]]:
    """The two ends of each session, the gateway's first."""
    with testbed.gateway.entered():
        listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((str(testbed.topology.PROXY4), _PORT))
    listener.listen(count)
    ends = []
    for _ in range(count):
        with testbed.client.entered():
            client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
        client.connect((str(testbed.topology.PROXY4), _PORT))
        # The client joins after the first data (RFC 8684 section 3.1).
        client.send(b"1")
        ends.append((stack.enter_context(listener.accept()[0]), client))
    return ends


def _trickle(ends: list[tuple[socket.socket, socket.socket]], over: threading.Event) -> None:
    for each in (end for pair in ends for end in pair):
        each.setblocking(False)
    while not over.wait(0.5):
        for sender, receiver in ends:
            with suppress(BlockingIOError):
                sender.send(bytes(1000))
                receiver.recv(65536)


def _wait_until(testbed: Testbed, is_backup: bool) -> float:
    """How long it takes until a subflow is a backup, or none is; raises CommandError (exit 75) if that never is."""

    def is_so() -> bool:
        return bool(_MADE_BACKUP.search(testbed.gateway.run("ss", "-HtinM"))) is is_backup

    return wait_until(is_so, _PATIENCE, "no change of a subflow to or from a backup", Exit.IN_USE, every=0.02)
