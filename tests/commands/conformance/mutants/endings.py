import select
import socket
from contextlib import suppress

from tests.commands.conformance.mutants.mutant import mutant, simple
from tests.commands.conformance.reading import Dropped, Request
from tests.commands.conformance.reference import Converter
from tests.commands.conformance.relaying import Flow


class ClosesBothWays(Converter):
    """On the FIN of one side, closes towards both."""

    of_client = True

    def half_close(self, flow: Flow) -> None:
        super().half_close(flow)
        if (flow.source.getsockname()[1] == self.port) == self.of_client:
            with suppress(OSError):  # both FINs have passed: the kernel has closed it already
                flow.source.shutdown(socket.SHUT_RDWR)


simple("ClosesBothWaysOnClientsFIN", "half-close-by-client", "fin-with-message", base=ClosesBothWays)
simple("ClosesBothWaysOnServersFIN", "half-close-by-server", base=ClosesBothWays, of_client=False)


@mutant("fin-with-message")
class TakesEarlyFINForAbort(Converter):
    def open(self, upstream: socket.socket, request: Request, data: bytes) -> socket.socket | None:
        watch = select.poll()
        watch.register(upstream, select.POLLRDHUP)
        if watch.poll(10):
            raise Dropped(reset=True)
        return super().open(upstream, request, data)


@mutant("reset-by-server")
class EndsClientProperlyOnReset(Converter):
    def torn(self, upstream: socket.socket, downstream: socket.socket) -> None:
        upstream.close()
        self.reset(downstream)


@mutant("reset-by-client")
class EndsServerProperlyOnReset(Converter):
    def torn(self, upstream: socket.socket, downstream: socket.socket) -> None:
        downstream.close()
        self.reset(upstream)
