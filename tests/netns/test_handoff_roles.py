import re
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from experiments.handoff.network import Network
from overlay.authority import enrol
from overlay.purposes import member
from tests.netns.connections import TCP
from tests.netns.handoff_world import HandOff, needs_tools
from tests.netns.world import connected, eventually, listener_at, serving
from tributary.settings.errors import Exit

pytestmark = needs_tools

NOTHING = "its certificate is for nothing in a hand-off: accepted: tributary:handoff"


@pytest.mark.parametrize(("role", "other"), [("switch", "a"), ("back-end", "front")])
def test_no_program_begins_with_a_certificate_for_another_role(role: str, other: str, handoff_network: Network) -> None:
    programs = handoff_network.programs
    commands = {
        "switch": f"{programs.switch} --fronts 127.0.0.1:1 --clients lo --service 10.7.1.2:80 --back-end 10.7.2.2:1=lo",
        "back-end": f"{programs.back_end} --fronts 127.0.0.1:1 --hand-off 127.0.0.1:1 --objects /",
    }
    command = [*commands[role].split(), "--identity", str(handoff_network.identity(other))]
    command = handoff_network.nodes["switch"].command(command)
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    assert result.returncode == Exit.NO_INPUT, result.stderr
    refused = rf"/node\.pem: its certificate is for tributary:handoff/\S+: accepted: tributary:handoff/{role}\n$"
    assert re.search(refused, result.stderr), result.stderr


def impostor(network: Network, name: str, *addresses: str) -> tuple[Path, Path]:
    """A certificate and key of the overlay's: of a node, or of etcd's member at these addresses."""
    authority = network.identity("front").parent
    purpose = (member(addresses),) if addresses else ()
    folder = enrol(authority, name, 1, *purpose)
    return folder / "node.pem", folder / "node.key"


def connect(handoff: HandOff, name: str) -> socket.socket:
    """Where it takes fronts in."""
    address = handoff.network.switch_for_fronts if name == "switch" else handoff.network.fronts(name)
    host, _, port = address.partition(":")
    return connected(handoff.nodes["client"], host, int(port), seconds=5, protocol=TCP)


def test_who_is_no_front_is_refused_by_a_line_and_who_says_nothing_is_sent_away(handoff: HandOff) -> None:
    context = ssl.create_default_context(cafile=str(handoff.network.identity("front") / "ca.pem"))
    context.load_cert_chain(*impostor(handoff.network, "node"))
    for name in ("switch", "a"):
        output = handoff.processes[name].output
        plain = connect(handoff, name)
        address = plain.getpeername()[0]
        with plain, context.wrap_socket(plain, server_hostname=address) as client, suppress(ConnectionResetError):
            assert client.recv(1) == b"", "no hello"
        with connect(handoff, name) as silent:
            assert silent.recv(1) == b""
        for why in (f"{NOTHING}/front", "timed out"):
            eventually(lambda: f"is refused as a front: {why}\n" in output())  # noqa: B023


def test_a_front_takes_nobody_for_a_back_end_who_is_none(handoff: HandOff) -> None:
    network = handoff.network
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*impostor(network, "m1", network.address("a")))
    handoff.kill("a", "front")

    def answer(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as front:
            front.recv(1)

    with serving(listener_at(network.nodes["a"], 7401, network.address("a"), TCP), answer):
        handoff.start("front")
        eventually(lambda: f"the back end a is away: {NOTHING}/back-end\n" in handoff.processes["front"].output())
