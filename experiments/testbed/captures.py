"""What passes a testbed's nodes while a reading is taken, kept as files for tcpdump(8) and Wireshark."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.testbed.node import Node
from tributary.settings.errors import CommandError, Exit

_BYTES = "128"
"""Of each packet: all headers with every option of TCP, and hardly any payload."""


def need_tcpdump() -> None:
    """Raise CommandError (exit 69) where tcpdump(8) is missing."""
    if shutil.which("tcpdump") is None:
        raise CommandError(Exit.UNAVAILABLE, "--pcap: not found: tcpdump: apt-get install tcpdump")


@contextmanager
def captured(nodes: Sequence[Node], folder: Path, name: str) -> Iterator[None]:
    """All interfaces of ``nodes`` for the length of the block, in ``folder``/NAME-NODE.pcap; raises CommandError."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for node in nodes:
            file = folder / f"{name}-{node.namespace.rpartition('-')[2]}.pcap"
            command = ["tcpdump", "-Z", "root", "-n", "-s", _BYTES, "-i", "any", "-w", str(file)]
            stack.enter_context(node.start("capture", command)).wait_for_output()
        yield
