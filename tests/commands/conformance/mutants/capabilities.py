from collections.abc import Callable
from typing import Any

from tests.commands.conformance.mutants.mutant import ANY, behind_connect, mutant, simple, strict
from tests.commands.conformance.reading import Request
from tests.commands.conformance.reference import Converter

INFOS = (
    "info-is-answered", "supported-unassigned-is-zero", "supported-padding", "supported-leaves-out",
    "supported-has-multipath", "info-and-connect", "connect-and-info",
)  # fmt: skip


@mutant(*INFOS, may_fail=ANY)
class IgnoresInfo(Converter):
    def info(self, request: Request, value: bytes) -> None:
        super().info(request, value)
        request.info = False


def _changes_list(name: str, fails: str, change: Callable[..., bytes], **others: Any) -> None:
    simple(name, fails, **others, supported=lambda self: change(Converter.supported(self)))


_changes_list("UnassignedNotZero", "supported-unassigned-is-zero", lambda value: b"\0\1" + value[2:])
_changes_list("PadsListTooFar", "supported-padding", lambda value: value + bytes(8))
for _option, _kind in {
    "NoOperation": b"\1",
    "MSS": b"\2",
    "WindowScale": b"\3",
    "SACK": b"\5",
    "TCPAO": b"\x1d",
}.items():
    _changes_list(f"Announces{_option}", "supported-leaves-out", lambda value, kind=_kind: value + kind)
_changes_list(
    "HidesMultipath",
    "supported-has-multipath",
    lambda value: value.replace(b"\x1e", b""),
    may_fail=ANY,
    whole=True,
)
strict("RefusesConnectBehindInfo", "info-and-connect", part="connect", where=lambda request, _: request.info)
strict("RefusesInfoBehindConnect", "connect-and-info", part="info", where=behind_connect)
