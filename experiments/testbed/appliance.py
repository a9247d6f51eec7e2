"""The processes of the appliance on a testbed's gateway, started with the commands that a user types."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import tomli_w

from experiments.testbed import converter
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node, Process, python
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT
from throttler.service.status import Status
from tributary.api.answers import decoded
from tributary.api.places import THROTTLER
from tributary.kernel import low_mark
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Size

POLICIES = Path(__file__).parents[2] / "tc-policies"
WIRED_SLOW = POLICIES / "wired-slow.toml"
_LONG_QUEUE = ("pfifo", "limit", "1000")
"""HTB's default leaf at an Ethernet interface's usual queue length of 1,000 packets."""
_LEAST_BUFFER, _FIRST_BUFFER = 4096, 131_072  # bytes
_ALWAYS = ROOT / "kernel-config/90-tributary.conf"
_TOGETHER = ROOT / "kernel-config/retransmissions.conf"
_WHERE_ASKED = """
from tributary.daemons import control, directories
directories.make_run()
print(control.place("converter"))
"""
"""What makes the folder, on the gateway, in which commands and the console ask its converter, and tells where."""
_SCRIPT = """
sysctl -e -q -p "$1"
! [ -e /proc/sys/net/ipv4/tcp_rto_max_ms ] || sysctl -q -p "$2"
"""


def tune(testbed: Testbed) -> None:
    """Give the client and the gateway the appliance's kernel settings."""
    for node in (testbed.client, testbed.gateway):
        apply_settings(node)


class BufferSize(Size):
    """The most that a socket's buffer may take."""

    LEAST = _LEAST_BUFFER
    ACCEPTED = f"a size such as '0.5MB', at least '{_LEAST_BUFFER}B'"


@contextmanager
def low_mark_obeyed() -> Iterator[bool]:
    """Whether new subflows obey the settings' low mark for the length of the block, as where tributary-common is: not
    without clang(1), or where the kernel lacks it. Where a namespace has no mark nothing changes.
    """
    with ExitStack() as stack:
        is_obeyed = False
        with suppress(CommandError):
            stack.enter_context(low_mark.obeyed(low_mark.compiled((ROOT / low_mark.SOURCE).read_bytes())))
            is_obeyed = True
        yield is_obeyed


def bound_receive_buffer(testbed: Testbed, most: int) -> None:
    """Let the client's receive buffers grow to ``most`` bytes (tcp(7), tcp_rmem), from the next connection on."""
    testbed.client.sysctl(net__ipv4__tcp_rmem=growing_to(most))


def growing_to(most: int) -> str:
    """What tcp_rmem and tcp_wmem are then: the least of a buffer, what it begins with, and the most (tcp(7))."""
    return f"{_LEAST_BUFFER} {min(_FIRST_BUFFER, most)} {most}"


def start_squid(testbed: Testbed) -> Process:
    """Start Squid as the HTTP converter that serves the testbed's client, with its files in the testbed's folder;
    raises CommandError if it does not become ready.
    """
    topology, gateway = testbed.topology, testbed.gateway
    settings = {"port": PROXY_PORT, "drain": "0s", "state_directory": str(gateway.directory / "squid-state")}
    networks = {"client_networks": topology.CLIENT_NETWORKS, "private_targets": topology.OPENED}
    file = gateway.write("squid.toml", tomli_w.dumps(settings | networks))
    return gateway.start("squid", python("squid", "run", str(file))).wait_until_ready()


def start_converter(testbed: Testbed, metrics: str | None = None) -> Process:
    """Start a native converter that serves the testbed's client as an HTTP proxy, with ``metrics`` at an ADDRESS:PORT
    of the gateway's; raises CommandError if it does not become ready.
    """
    topology, gateway = testbed.topology, testbed.gateway
    control: dict[str, object] = {"socket": gateway.run(sys.executable, "-c", _WHERE_ASKED).strip()}
    tables: dict[str, dict[str, object]] = {"targets": {"allow": [*topology.OPENED]}, "control": control}
    if metrics:
        tables["metrics"] = {"address": metrics}
    listener = {"kind": "http", "address": f"[::]:{NATIVE_PORT}"}
    text = converter.settings(gateway, "converter", topology.CLIENT_NETWORKS, listener, **tables)
    return converter.start(gateway, "converter", text, testbed.converter)


def start_throttler(testbed: Testbed, policy: Path, *options: str) -> Process:
    """Start the throttler with ``policy`` and other options; raises CommandError if it does not become ready."""
    command = python("throttler", "run", "--policy", str(policy), *options)
    return testbed.gateway.start("throttler", command).wait_until_ready()


def policy_over(paths: Iterable[str], rule: Mapping[str, object], **tables: Mapping[str, object]) -> str:
    """A throttler's whole policy, of ``paths`` by the names of their interfaces, with one rule and more ``tables``."""
    return tomli_w.dumps({"paths": {path: {"interface": path} for path in paths}, "rules": [rule], **tables})


def start_steering(testbed: Testbed, mode: str = "on") -> Process:
    """Start a throttler that steers sessions and throttles nothing; raises CommandError if it does not become ready.

    The gateway needs net.mptcp.pm_type=1 before its sessions begin.
    """
    names = [link.name for link in testbed.topology.links]
    text = policy_over(names, {"name": "none", "path": names[0]}, steering={"mode": mode})
    policy = testbed.gateway.write("steering.toml", text)
    state = str(testbed.directory / "throttler-state")
    return start_throttler(testbed, policy, "--source", "kernel", "--state-directory", state)


def throttler_status(testbed: Testbed) -> Status:
    """What the throttler that runs says of itself; raises CommandError if none runs."""
    return decoded(Status, testbed.gateway.told(*python("command", "status", "throttler")), THROTTLER)


def held_round_trip(testbed: Testbed) -> float:
    """Milliseconds to the client and back by the held subflow that has carried more than any other; raises
    CommandError (exit 1) if there is none.
    """
    subflows = [subflow for session in throttler_status(testbed).sessions for subflow in session.subflows]
    held = {
        subflow.sent: subflow.rtt
        for subflow in subflows
        if subflow.rule and subflow.sent is not None and subflow.rtt is not None
    }
    if not held:
        raise CommandError(Exit.WRONG_RESULT, "the throttler holds no subflow of the bulk download")
    return held[max(held)] * 1000


def lengthen_held_queue(testbed: Testbed) -> None:
    """Give the one held class the long queue that it would have without the throttler."""
    (held,) = throttler_status(testbed).classes
    testbed.gateway.run("tc", "qdisc", "replace", "dev", held.device, "parent", held.id, *_LONG_QUEUE)


def apply_settings(node: Node) -> None:
    """Give a node the appliance's kernel settings, as far as its kernel has them, as tributary-common does."""
    node.run("sh", "-ec", _SCRIPT, "sysctl", str(node.there(_ALWAYS)), str(node.there(_TOGETHER)))
