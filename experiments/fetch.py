"""One download by the testbed's client, over legacy TCP from the server or over MPTCP through the gateway's proxy."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from experiments.record import Download, read_download, read_sending
from experiments.testbed.build import Testbed
from experiments.testbed.node import python
from experiments.testbed.server import File


def fetch(
    testbed: Testbed,
    name: str,
    file: File,
    link: str,
    proxy: int | None,
    ipv6: bool = False,
    progress: Callable[[int], None] = lambda _received: None,
    seconds: float | None = None,
    every: float = 0.1,
) -> Download:
    """Download ``file`` with the first subflow over ``link``; ``progress`` is told the payload bytes so far.

    ``proxy`` is the port of one on the gateway, to go through by MPTCP, whose senders are looked at meanwhile; without
    it, legacy TCP from the server. After
    ``seconds`` the download breaks off. Samples are ``every`` so many seconds apart, longer while no byte comes.

    Raises CommandError if the download fails.
    """
    testbed.offer(file.size, file.seed)
    lines = []
    command = [*download_command(testbed, file, link, proxy, ipv6), "--every", str(every)]
    if seconds is not None:
        command += ["--seconds", str(seconds)]
    with _senders(testbed, name) if proxy else nullcontext(list) as seen:
        for line in testbed.client.lines(*command):
            lines.append(json.loads(line))
            progress(sum(subflow["received"] for subflow in lines[-1]["subflows"]))
        download = read_download(name, lines, testbed.topology.path_of)
        return replace(download, sending=read_sending(seen(), download, testbed.topology.path_of))


@contextmanager
def _senders(testbed: Testbed, name: str) -> Iterator[Callable[[], list[Any]]]:
    """The function given ends looking at what the gateway sends by, and says what was seen since the block began."""
    with testbed.gateway.probe("senders", name=f"senders-{name}") as probe:

        def seen() -> list[Any]:
            probe.stop()
            return [json.loads(line) for line in probe.output().splitlines() if line.startswith("[")]

        yield seen


def download_command(testbed: Testbed, file: File, link: str, proxy: int | None, ipv6: bool = False) -> list[str]:
    """What fetch() runs on the client; it prints what experiments.probes.download describes."""
    topology = testbed.topology
    own = next(candidate for candidate in topology.links if candidate.name == link)
    server, gateway, source = str(topology.SERVER4), str(topology.PROXY4), str(own.client4)
    if ipv6:
        server, gateway, source = f"[{topology.SERVER6}]", f"[{topology.PROXY6}]", str(own.client6)
    command = python("experiments.probes.download", f"http://{server}/{file.path.name}")
    command += ["--source", source]
    for candidate in topology.links:
        command += ["--interface", candidate.name]
    return [*command, "--mptcp", "--proxy", f"{gateway}:{proxy}"] if proxy else command
