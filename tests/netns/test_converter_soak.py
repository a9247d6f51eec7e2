"""Random connections through the native converter, some of which rest for longer than all of its time-outs: every byte
is right, nobody is reset who should not be, and at the end it has no more memory and descriptors than at the beginning.

`scripts/bench run converter-soak` does the same for hours.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.testbed import native
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_world import ALL, GATEWAY, PORTS, World
from tests.netns.world import eventually

IDLE, HALF_CLOSED = 3, 2
CONFIG = ALL + f'[timeouts]\nrequest = "1s"\nconnect = "1s"\nidle = "{IDLE}s"\nhalf_closed = "{HALF_CLOSED}s"\n'
PEER = f"{SERVER}:8090"
ROUTE = ("--to", PEER, "--via-connect", f"{GATEWAY}:{PORTS['http']}")
LITTLE = 16 << 20
"""Bytes of memory that allocators may keep of what was busy."""


@contextmanager
def soaked(net: World) -> Iterator[str]:
    """The other end of the soak at the server; the program."""
    load = str(native.build().load)
    with net.server.start("soak-origin", [load, "soak-origin", "--listen", PEER]).wait_until_ready():
        yield load


def soak(net: World, load: str, seconds: int, *resting: str) -> subprocess.CompletedProcess[str]:
    play = ("soak", "--seconds", str(seconds), "--connections", "8", *resting, *ROUTE)
    command = net.client.command([load, *play])
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_connections_that_rest_live_until_their_time_is_over_and_leave_nothing(net: World, running: Converter) -> None:
    with soaked(net) as load:
        assert soak(net, load, 1).returncode == 0
        running.wait_until_idle()
        before = (running.idle_descriptors(), running.resident())
        lines = len(running.lines())
        limits = ("--idle", str(IDLE), "--half-closed", str(HALF_CLOSED))
        done = soak(net, load, 2 * IDLE, "--resting", "32", *limits)
        assert done.returncode == 0, (done.stdout, done.stderr)
        told = json.loads(done.stdout)
        for end in ("client", "origin"):
            assert told[end]["rests"] > 0
            assert told[end]["reaped"] > 0
            assert told[end]["checked_bytes"] > 0
        running.wait_until_idle()
        eventually(lambda: running.descriptors() <= before[0])
        assert running.resident() - before[1] < LITTLE
    outcomes = running.served()[lines:]
    assert outcomes.count("idle-timeout") == told["client"]["reaped"]
