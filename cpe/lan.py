"""IPv6 in the LAN: the router's own address there, of the prefix that the gateway in use has for it. Pure.

The address stands while that gateway answers, and dnsmasq(8) tells devices of its prefix as long as it stands, and that
the prefix is not to be used any more when it is gone. The prefixes of all gateways lead to the LAN all the time: what
devices still send from one is refused, and they have to hear of that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Interface

from cpe.observed import Observed, Route
from cpe.ours import MAIN, METRICS, PROTOCOL
from cpe.settings import CpeSettings
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import Enrolment


@dataclass(frozen=True)
class LanAddress:
    """An address of the router's, and the number of the interface."""

    interface: int
    address: IPv6Interface


def routes(settings: CpeSettings, observed: Observed) -> Iterator[Route]:
    """The way to the LAN, for each gateway's prefix."""
    number = _interface(settings, observed)
    for enrolment in settings.enrolment:
        if number is not None and enrolment.prefix:
            yield Route(MAIN, enrolment.prefix, None, number, METRICS[-1], PROTOCOL)


def wanted(settings: CpeSettings, enrolment: Enrolment, observed: Observed, answers: bool) -> tuple[LanAddress, ...]:
    """The address of the gateway of ``enrolment``, if it ``answers``."""
    number, found = _interface(settings, observed), _address(enrolment)
    return (LanAddress(number, found),) if answers and found and number is not None else ()


def standing(settings: CpeSettings, observed: Observed) -> tuple[LanAddress, ...]:
    """Those of all gateways that are there; nobody else has a reason to make them."""
    number = _interface(settings, observed)
    there = {each.address for each in observed.addresses if each.interface == number}
    ours = filter(None, map(_address, settings.enrolment))
    return tuple(LanAddress(number, each) for each in ours if number is not None and each.ip in there)


def _address(enrolment: Enrolment) -> IPv6Interface | None:
    prefix = enrolment.prefix
    return IPv6Interface((addresses.of_lan(prefix), prefix.prefixlen)) if prefix else None


def _interface(settings: CpeSettings, observed: Observed) -> int | None:
    """The number of the LAN's interface, if it is there and switched on."""
    return next((each.index for each in observed.interfaces if each.name == settings.lan and each.is_up), None)
