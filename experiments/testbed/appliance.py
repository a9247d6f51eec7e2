"""The processes of the appliance on a testbed's gateway, started with the commands that a user types."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.testbed import kernel_settings
from experiments.testbed.build import Testbed
from experiments.testbed.node import Process
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT
from throttler.service.status import Status, decode

POLICIES = Path(__file__).parents[2] / "tc-policies"
WIRED_SLOW = POLICIES / "wired-slow.toml"
_LONG_QUEUE = ("pfifo", "limit", "1000")
"""HTB's default leaf at an Ethernet interface's usual queue length of 1,000 packets."""
_FIRST_BUFFER = 131_072  # bytes that a receive buffer begins with: tcp(7), tcp_rmem


def tune(testbed: Testbed) -> None:
    """Give the client and the gateway the appliance's kernel settings."""
    for node in (testbed.client, testbed.gateway):
        kernel_settings.apply(node)


def bound_receive_buffer(testbed: Testbed, most: int) -> None:
    """Let the client's receive buffers grow to ``most`` bytes (tcp(7), tcp_rmem), from the next connection on."""
    testbed.client.sysctl(net__ipv4__tcp_rmem=f"4096 {min(_FIRST_BUFFER, most)} {most}")


def squid_settings(testbed: Testbed) -> str:
    """The settings of a Squid that serves the testbed's client and keeps its files in the testbed's folder."""
    topology, state = testbed.topology, testbed.gateway.directory / "squid-state"
    return (
        f"port = {PROXY_PORT}\nclient_networks = {_listed(topology.CLIENT_NETWORKS)}\n"
        f'private_targets = {_listed(topology.OPENED)}\ndrain = "0s"\nstate_directory = "{state}"\n'
    )


def start_squid(testbed: Testbed) -> Process:
    """Start Squid as the HTTP converter; raises CommandError if it does not become ready."""
    settings = testbed.gateway.write("squid.toml", squid_settings(testbed))
    command = [sys.executable, "-m", "squid", "run", str(settings)]
    return testbed.gateway.start("squid", command).wait_until_ready()


def converter_settings(testbed: Testbed, metrics: str | None = None) -> str:
    """The configuration of a native converter that serves the testbed's client as an HTTP proxy, with ``metrics`` at
    an ADDRESS:PORT of the gateway's.
    """
    topology, socket = testbed.topology, testbed.gateway.directory / "converter.sock"
    return (
        f"[clients]\nnetworks = {_listed(topology.CLIENT_NETWORKS)}\n[targets]\nallow = {_listed(topology.OPENED)}\n"
        f'[control]\nsocket = "{socket}"\n[timeouts]\ndrain = "1s"\n'
        f'[[listen]]\nkind = "http"\naddress = "[::]:{NATIVE_PORT}"\n'
    ) + (f'[metrics]\naddress = "{metrics}"\n' if metrics else "")


def _listed(networks: Sequence[str]) -> str:
    return json.dumps(list(networks))


def start_converter(testbed: Testbed, metrics: str | None = None) -> Process:
    """Start the native converter; raises CommandError if it does not become ready."""
    settings = testbed.gateway.write("converter.toml", converter_settings(testbed, metrics))
    command = [str(testbed.programs().converter), "--config", str(settings)]
    return testbed.gateway.start("converter", command).wait_until_ready()


def start_throttler(testbed: Testbed, policy: Path, *options: str) -> Process:
    """Start the throttler with ``policy`` and other options; raises CommandError if it does not become ready."""
    command = [sys.executable, "-m", "throttler", "run", "--policy", str(policy), *options]
    return testbed.gateway.start("throttler", command).wait_until_ready()


def start_steering(testbed: Testbed, mode: str = "on") -> Process:
    """Start a throttler that steers sessions and throttles nothing; raises CommandError if it does not become ready.

    The gateway needs net.mptcp.pm_type=1 before its sessions begin.
    """
    names = [link.name for link in testbed.topology.links]
    paths = "".join(f'[paths.{name}]\ninterface = "{name}"\n' for name in names)
    rule = f'[[rules]]\nname = "none"\npath = "{names[0]}"\n'
    policy = testbed.gateway.write("steering.toml", f'{paths}[steering]\nmode = "{mode}"\n{rule}')
    state = str(testbed.directory / "throttler-state")
    return start_throttler(testbed, policy, "--source", "kernel", "--state-directory", state)


def throttler_status(testbed: Testbed) -> Status:
    """What the throttler that runs says of itself; raises CommandError if none runs."""
    return decode(json.loads(testbed.gateway.run(sys.executable, "-m", "command", "status", "throttler")))


def lengthen_held_queue(testbed: Testbed) -> None:
    """Give the one held class the long queue that it would have without the throttler."""
    (held,) = throttler_status(testbed).classes
    testbed.gateway.run("tc", "qdisc", "replace", "dev", held.device, "parent", held.id, *_LONG_QUEUE)
