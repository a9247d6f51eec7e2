"""What the experiments take for true: the kernel's figures of each subflow, and the packets on the wire."""

import re
from collections.abc import Mapping

from experiments.probes.download import subflows_of
from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import NATIVE_PORT
from tests.netns.captures import capturing, streams
from tests.netns.connections import MPTCP
from tests.netns.world import connected, eventually

TOLERANCE = 0.02


def test_both_kernels_and_the_packets_agree_on_what_each_subflow_carried(testbed: Testbed) -> None:
    file = random_file(10_000_000, seed=1)
    topology = testbed.topology
    with (
        start_server(testbed, file.path.parent),
        start_converter(testbed),
        capturing(testbed.client) as capture,
        connected(testbed.client, str(topology.PROXY4), NATIVE_PORT, protocol=MPTCP) as client,
    ):
        client.sendall(f"GET http://{topology.SERVER4}/{file.path.name} HTTP/1.1\r\nHost: server\r\n\r\n".encode())
        left = file.size
        while left > 0:
            left -= len(client.recv(1 << 18))
        with testbed.client.entered():
            by_client = {each.local: each.received for each in subflows_of(client)}
        # The last acknowledgements are still on their way.
        eventually(lambda: agree(by_client, acknowledged(testbed)))
    assert capture.lost == 0
    assert len(by_client) == 2
    assert sum(by_client.values()) >= file.size
    on_the_wire = {each.destination: len(each.content) for each in streams(capture)}
    assert agree(by_client, on_the_wire), (by_client, on_the_wire)


def agree(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether both give each subflow about the same number of bytes."""
    return all(abs(other[subflow] / count - 1) < TOLERANCE for subflow, count in one.items())


def acknowledged(testbed: Testbed) -> dict[str, int]:
    """Bytes that the gateway's subflows have had acknowledged, by the client's address, from socket diagnostics."""
    printed = testbed.gateway.run("ss", "-HtniO", "state", "established", f"sport = {NATIVE_PORT}")
    found = re.findall(r"\[::ffff:(10\.0\.\d+\.2)\]:(\d+) .*?bytes_acked:(\d+)", printed)
    return {f"{address}:{port}": int(count) for address, port, count in found}
