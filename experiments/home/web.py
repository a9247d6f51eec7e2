"""What the server offers: downloads without end at the ports of several applications, and a mirror for calls."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from experiments.home.network import SERVER
from experiments.testbed.node import Node, python
from experiments.testbed.server import start_origin

PORTS = (80, 443, 27015, 22)
"""Of the web, of the encrypted web, of a game, of SSH."""
CALL_PORT = 5060
"""UDP."""


@contextmanager
def serving(server: Node) -> Iterator[None]:
    """All of it, for the length of the block; every byte of a download is known (tributary-load)."""
    with ExitStack() as stack:
        for port in PORTS:
            stack.enter_context(start_origin(server, f"{SERVER}:{port}"))
        answer = python("experiments.probes.call", "answer", SERVER, str(CALL_PORT))
        stack.enter_context(server.start("mirror", answer).wait_until_ready())
        yield
