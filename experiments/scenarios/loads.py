"""A bulk download in the background of what is measured: none, or at full speed, or with its first path held.

The throttler holds by the policy wired-slow.toml. A held class has a short queue, until pfifo(8) with 1,000 packets
takes its place. Fair queues are fq_codel(8), in front of the first link on the gateway, which gives a little less than
the link carries: so packets wait there, each flow for itself, and not in the link.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from experiments.fetch import download_command
from experiments.scenarios.downloads import file_lasting
from experiments.testbed.appliance import WIRED_SLOW, lengthen_held_queue, start_throttler, throttler_status
from experiments.testbed.build import Testbed
from experiments.testbed.links import kernel_has_qdisc
from experiments.testbed.node import Process
from tributary.settings.errors import CommandError, Exit

IDLE, BULK, FAIR, HELD, HELD_LONG = "idle", "bulk", "bulk-fair-queue", "bulk-throttled", "bulk-throttled-long-queue"
LOADS = (IDLE, BULK, FAIR, HELD, HELD_LONG)

_FAIR_SHARE = 0.95  # of the link's rate
_MARGIN = 30.0  # seconds that the file of a bulk download lasts beyond what is planned

Seen = Callable[[], dict[str, float]]


def possible(load: str) -> bool:
    """Whether this kernel has what ``load`` needs."""
    return load != FAIR or kernel_has_qdisc("fq_codel")


@contextmanager
def loaded(testbed: Testbed, load: str, proxy: int, settle: float) -> Iterator[Seen]:
    """``load``, through the converter at the port ``proxy``, for the length of the block, ``settle`` seconds old.

    The function given says what was seen of it since: ``bulk_mbps``, and of a held subflow ``held_rtt_ms``. Raises
    CommandError if the download ended before the block.
    """
    with ExitStack() as stack:
        if load in (HELD, HELD_LONG):
            stack.enter_context(start_throttler(testbed, WIRED_SLOW))
        if load == FAIR:
            stack.enter_context(_fair_queue(testbed))
        if load == IDLE:
            yield dict
            return
        bulk = stack.enter_context(_bulk(testbed, proxy, settle)).wait_for_output()
        time.sleep(settle)
        if load == HELD_LONG:
            lengthen_held_queue(testbed)
            time.sleep(settle)
        before = _progress(bulk)
        yield lambda: {"bulk_mbps": _mbps(before, _progress(bulk))} | _held(testbed, load)


def _bulk(testbed: Testbed, proxy: int, settle: float) -> Process:
    links = testbed.topology.links
    file = file_lasting(testbed.topology, 2 * settle + _MARGIN, seed=1)
    return testbed.client.start("bulk", download_command(testbed, file, links[0].name, proxy))


@contextmanager
def _fair_queue(testbed: Testbed) -> Iterator[None]:
    link = testbed.topology.links[0]
    rate = int(_FAIR_SHARE * link.down.rate.amount)
    where = ("dev", link.name)
    testbed.gateway.run("tc", "qdisc", "add", *where, "root", "handle", "1:", "htb", "default", "1")
    try:
        shape = ("htb", "rate", f"{rate}bit", "burst", "15140b", "cburst", "15140b")
        testbed.gateway.run("tc", "class", "add", *where, "parent", "1:", "classid", "1:1", *shape)
        testbed.gateway.run("tc", "qdisc", "add", *where, "parent", "1:1", "fq_codel")
        yield
    finally:
        testbed.gateway.run("tc", "qdisc", "delete", *where, "root")


def _held(testbed: Testbed, load: str) -> dict[str, float]:
    """The round-trip time of the bulk download's held subflow, which has carried more than any other."""
    if load not in (HELD, HELD_LONG):
        return {}
    subflows = [subflow for session in throttler_status(testbed).sessions for subflow in session.subflows]
    held = {
        subflow.sent_bytes: subflow.rtt_us
        for subflow in subflows
        if subflow.rule and subflow.sent_bytes is not None and subflow.rtt_us is not None
    }
    if not held:
        raise CommandError(Exit.WRONG_RESULT, "the throttler holds no subflow of the bulk download")
    return {"held_rtt_ms": held[max(held)] / 1000}


def _progress(bulk: Process) -> tuple[float, int]:
    """Seconds since the request, and bytes of the body: what the download told last."""
    lines = bulk.output().splitlines()
    if not lines or bulk.popen.poll() is not None:
        raise CommandError(
            Exit.SYSTEM, f"the bulk download does not run: {lines[-1] if lines else 'it printed nothing'}"
        )
    last = json.loads(lines[-1])
    return last["at"], last["bytes"]


def _mbps(before: tuple[float, int], now: tuple[float, int]) -> float:
    seconds, count = now[0] - before[0], now[1] - before[1]
    return 8 * count / seconds / 1e6 if seconds else 0.0
