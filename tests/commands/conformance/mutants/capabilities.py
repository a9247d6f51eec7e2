from collections.abc import Callable
from typing import Any

from tests.commands.conformance.mutants.mutant import ANY, mutant, only, simple
from tests.commands.conformance.reading import Request
from tests.commands.conformance.reference import Converter

INFOS = only(
    "info-is-answered", "supported-unassigned-is-zero", "supported-padding", "supported-leaves-out",
    "supported-has-multipath", "info-and-connect", "connect-and-info",
)  # fmt: skip


@mutant(*INFOS, may_fail=ANY)
class IgnoresInfo(Converter):
    def info(self, request: Request, value: bytes) -> None:
        super().info(request, value)
        request.info = False


def _changes_list(name: str, fails: str, change: Callable[[bytes], bytes], **others: Any) -> None:
    simple(name, only(fails), **others, supported=lambda self: change(Converter.supported(self)))


_changes_list("UnassignedNotZero", "supported-unassigned-is-zero", lambda value: b"\0\1" + value[2:])
_changes_list("PadsListTooFar", "supported-padding", lambda value: value + bytes(8))
_changes_list("AnnouncesNoOperation", "supported-leaves-out", lambda value: value + b"\x01")
_changes_list("AnnouncesMSS", "supported-leaves-out", lambda value: value + b"\x02")
_changes_list("AnnouncesWindowScale", "supported-leaves-out", lambda value: value + b"\x03")
_changes_list("AnnouncesSACK", "supported-leaves-out", lambda value: value + b"\x05")
_changes_list("AnnouncesTCPAO", "supported-leaves-out", lambda value: value + b"\x1d")
_changes_list(
    "HidesMultipath",
    "supported-has-multipath",
    lambda value: value.replace(b"\x1e", b""),
    may_fail=ANY,
    whole=True,
)


@mutant("info-and-connect")
class RefusesConnectBehindInfo(Converter):
    def connect(self, request: Request, value: bytes) -> None:
        if request.info:
            raise self.malformed(request)
        super().connect(request, value)


@mutant("connect-and-info")
class RefusesInfoBehindConnect(Converter):
    def info(self, request: Request, value: bytes) -> None:
        if request.address is not None:
            raise self.malformed(request)
        super().info(request, value)
