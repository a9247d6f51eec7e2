"""What the experiments take for true: the kernel's figures of each subflow, and the packets on the wire."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping

from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import NATIVE_PORT
from tests.netns.world import eventually, program
from tributary.paths import ROOT

TOLERANCE = 0.02


def test_both_kernels_and_the_packets_agree_on_what_each_subflow_carried(testbed: Testbed) -> None:
    file = random_file(10_000_000, seed=1)
    links = [link.name for link in testbed.topology.links]
    capture = [sys.executable, "-m", "tests.netns.payload_capture", str(NATIVE_PORT), *links]
    where = [str(testbed.topology.PROXY4), str(NATIVE_PORT), f"http://{testbed.topology.SERVER4}/{file.path.name}"]
    command = testbed.client.command(program("truth_client", *where, str(file.size)))
    pipe = subprocess.PIPE
    with (
        start_server(testbed, file.path.parent),
        start_converter(testbed),
        testbed.client.start("capture", capture).wait_until_ready() as watcher,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as client,
    ):
        assert client.stdout is not None and client.stdin is not None
        by_client = json.loads(client.stdout.readline())
        # The last acknowledgements are still on their way.
        eventually(lambda: agree(by_client, acknowledged(testbed)))
        client.stdin.close()
        watcher.stop()
        told = watcher.report()
    assert told["lost"] == 0
    assert len(by_client) == 2
    assert sum(by_client.values()) >= file.size
    assert agree(by_client, told["bytes"]), (by_client, told)


def agree(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether both give each subflow about the same number of bytes."""
    return all(abs(other[subflow] / count - 1) < TOLERANCE for subflow, count in one.items())


def acknowledged(testbed: Testbed) -> dict[str, int]:
    """Bytes that the gateway's subflows have had acknowledged, by the client's address, from socket diagnostics."""
    printed = testbed.gateway.run("ss", "-HtniO", "state", "established", f"sport = {NATIVE_PORT}")
    found = re.findall(r"\[::ffff:(10\.0\.\d+\.2)\]:(\d+) .*?bytes_acked:(\d+)", printed)
    return {f"{address}:{port}": int(count) for address, port, count in found}
