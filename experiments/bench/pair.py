"""A client and a gateway joined by two plain cables, for what needs no delay; and a throttler between them.

    +--------+ path1            path1 +---------+
    |        |.2 ----- 10.1.1.0/24 .1 |         |   the first subflow; the listener is 10.1.1.1
    | client |                        | gateway |
    |        |.2-.9 -- 10.1.2.0/24 .1 |         |   joins, from up to eight addresses
    +--------+ path2            path2 +---------+

They stand beside the one emulated link of a testbed, which gives the nodes, the lock and the cleaning up.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from tempfile import mkdtemp

from experiments.study.blueprint import Ground, Standing
from experiments.testbed import cables, native
from experiments.testbed.appliance import policy_over, start_throttler
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import PATHS
from experiments.testbed.network import lay
from experiments.testbed.node import Process
from experiments.testbed.profile import TOLERANCE
from experiments.testbed.server import start_origin
from tributary.settings.errors import CommandError, Exit

LISTENER, CLIENT = IPv4Address(cables.LISTENER), IPv4Address("10.1.1.2")
HELD_PORT, BESIDE_PORT = 5001, 5002
HELD = ("--mptcp", "--after", "0.3")
"""What passes before the hold is there is none of its business: it gets 0.3 seconds to come."""
JOINING = tuple(IPv4Address("10.1.2.2") + number for number in range(8))
"""As many as the kernel takes endpoints (MPTCP_PM_ADDR_MAX in net/mptcp/protocol.h)."""

# A cable carries frames as a wire does, so that the far end counts each of them.
_WIRES = """
client gateway: ethtool -K path1 tso off gso off gro off
client gateway: ethtool -K path2 tso off gso off gro off
client: ip route add default via 10.1.2.1 dev path2 table 201
client: ip rule add from 10.1.2.0/24 lookup 201
""" + "".join(f"client: ip address add {address}/24 dev path2\n" for address in JOINING[1:])


@contextmanager
def standing_pair(name: str, _seed: int = 0, _tolerance: float = TOLERANCE) -> Iterator[Standing[Testbed]]:
    """The two nodes, with their cables, for the length of the block."""
    with standing(name, cables.IDLE) as testbed:
        cables.lay(testbed)
        lay(_WIRES, {"client": testbed.client, "gateway": testbed.gateway})
        yield Standing(testbed)


DESCRIBED = {"cables": "veth, two, without offloads"}
PAIR = Ground(DESCRIBED, standing_pair)


@contextmanager
def joining(testbed: Testbed, addresses: int) -> Iterator[None]:
    """Each session of the client that begins in the block joins from so many of the addresses JOINING."""
    for address in JOINING[:addresses]:
        testbed.client.ip("mptcp", "endpoint", "add", str(address), "dev", PATHS[1], "subflow")
    try:
        yield
    finally:
        testbed.client.ip("mptcp", "endpoint", "flush")


def throttling(testbed: Testbed, rule: Mapping[str, object], source: str = "auto") -> Process:
    """The throttler on the gateway with one ``rule`` for the two paths; raises CommandError if it does not start."""
    file = testbed.gateway.write("policy.toml", policy_over(PATHS, rule))
    # A new folder for used quotas, so that nothing is used when it starts.
    state = ("--state-directory", mkdtemp(prefix="throttler-", dir=testbed.directory))
    return start_throttler(testbed, file, "--source", source, *state)


@contextmanager
def serving(testbed: Testbed) -> Iterator[None]:
    """The gateway serves both ports for the length of the block."""
    with ExitStack() as stack:
        for port in (HELD_PORT, BESIDE_PORT):
            stack.enter_context(start_origin(testbed.gateway, f"{LISTENER}:{port}", "--mptcp"))
        yield


@contextmanager
def flow(testbed: Testbed, port: int, direction: str, seconds: float, *options: str) -> Iterator[None]:
    """A connection from the client for the length of the block; raises CommandError if it ended before."""
    where = ("--to", f"{LISTENER}:{port}", *(["--upload"] if direction == "upload" else []))
    command = native.load("flow", *where, "--seconds", str(seconds), *options)
    with testbed.client.start(f"flow-{port}", command) as process:
        yield
        if process.popen.poll() is not None:
            last = (process.output().splitlines() or ["it printed nothing"])[-1]
            raise CommandError(Exit.SYSTEM, f"the {direction} ended before its time: {last}")


def held(rate: str, direction: str) -> dict[str, object]:
    """The policy's rule that holds each subflow on the first path."""
    return {"name": "held", "min_subflows": 1, "path": PATHS[0], "rate": rate, "direction": direction}
