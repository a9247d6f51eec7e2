import socket

from tests.commands.conformance.mutants.mutant import mutant, refuse, simple
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter


@mutant("connection-reset-extended")
class OtherErrorForExtendedConnect(Converter):
    def dial(self, request: Request, data: bytes) -> socket.socket:
        try:
            return super().dial(request, data)
        except Refused as refused:
            raise refused if request.options is None else Refused(65) from None


@mutant("refused-port-is-tried-again")
class RemembersRefusals(Converter):
    def dial(self, request: Request, data: bytes) -> socket.socket:
        known = self.__dict__.setdefault("known", set())
        if request.port in known:
            raise self.reset_by_server()
        try:
            return super().dial(request, data)
        except Refused:
            known.add(request.port)
            raise


simple(
    "Error96WithValue",
    "connection-reset",
    "connection-reset-extended",
    reset_by_server=lambda _: Refused(96, b"\1"),
)
simple("TakesICMPForReset", "destination-unreachable", whole=True, icmp_code=lambda *_: None)
simple("Error97WithoutCode", "destination-unreachable", whole=True, unreachable=lambda *_: Refused(97))
simple("OtherErrorForForbidden", "forbidden-destination", forbid=lambda _: refuse(65))
simple("Error32WithValue", "forbidden-destination", forbid=lambda _: refuse(32, b"\x20"))
