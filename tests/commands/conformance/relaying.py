"""The reference converter's relay (RFC 8803 section 4.2)."""

import select
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

BLOCK = 65536


@dataclass
class Flow:
    """One direction of a relayed connection."""

    source: socket.socket
    sink: socket.socket
    data: bytes
    ended: bool = False


class Relay:
    """Moves data both ways, and ends each way as it ended on the other side."""

    def reset(self, *connections: socket.socket) -> None:
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    def relay(self, upstream: socket.socket, downstream: socket.socket, data: bytes) -> None:
        """Until both directions have ended, or one end resets."""
        flows = [Flow(upstream, downstream, data), Flow(downstream, upstream, b"")]
        try:
            while not all(flow.ended for flow in flows):
                self._wait(upstream, downstream, flows)
                for flow in flows:
                    self.move(flow)
        except OSError:
            self.torn(upstream, downstream)

    def torn(self, upstream: socket.socket, downstream: socket.socket) -> None:
        self.reset(upstream, downstream)

    def _wait(self, upstream: socket.socket, downstream: socket.socket, flows: list[Flow]) -> None:
        watch = select.poll()
        for end in (upstream, downstream):
            end.setblocking(False)
            reads = any(flow.source is end and not flow.data and not flow.ended for flow in flows)
            writes = any(flow.sink is end and flow.data for flow in flows)
            watch.register(end, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0))
        for descriptor, event in watch.poll(20_000):
            end = upstream if descriptor == upstream.fileno() else downstream
            if event & select.POLLERR or (
                event & select.POLLHUP and end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            ):
                raise ConnectionResetError

    def move(self, flow: Flow) -> None:
        with suppress(BlockingIOError):
            if flow.data:
                flow.data = flow.data[flow.sink.send(flow.data) :]
            elif not flow.ended:
                flow.data = flow.source.recv(BLOCK)
                if not flow.data:
                    flow.ended = True
                    self.half_close(flow)

    def half_close(self, flow: Flow) -> None:
        flow.sink.shutdown(socket.SHUT_WR)
