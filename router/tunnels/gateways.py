"""Which gateway the tunnels lead to, its addresses, and the applied configuration of the tunnels. Pure."""

from collections.abc import Mapping
from ipaddress import ip_address

from router.settings import RouterSettings
from router.tunnels.failback import FailbackMonitor
from router.tunnels.model import TunnelConfig
from tributary.kernel.state import Address
from tributary.wireguard.enrolment import Enrolment


class Gateways:
    """The configured gateways, of which one is used at a time. When it is silent, the next one is.

    It fails back to an earlier gateway that is stable (``failback``).
    """

    def __init__(self, settings: RouterSettings, used: str | None = None) -> None:
        """``used`` is HOST:PORT of the gateway that was used before a restart."""
        self._enrolments = settings.enrolment
        self._index = self._index_of(used)
        self._resolved: dict[str, tuple[Address, ...]] = {}
        self._chosen: dict[tuple[str, str], Address] = {}
        """By the names of gateway and link: of several addresses the one in use."""
        self.applied: dict[str, TunnelConfig] = {}
        """By the interface's name, its last configuration."""
        self._failback_settings = settings.probe, settings.tunnels
        self.failback = FailbackMonitor(*self._failback_settings)

    def change_settings(self, settings: RouterSettings) -> None:
        """A gateway that is still configured stays in use, with its addresses. All tunnels are configured again."""
        used = self.address
        if settings.enrolment != self._enrolments or (settings.probe, settings.tunnels) != self._failback_settings:
            self._enrolments = settings.enrolment
            self._index = self._index_of(used)
            self._failback_settings = settings.probe, settings.tunnels
            self.failback = FailbackMonitor(*self._failback_settings)
        self.applied.clear()

    def _index_of(self, gateway: str | None) -> int:
        places = [str(each.gateway) for each in self._enrolments]
        return places.index(gateway) if gateway in places else 0

    @property
    def current(self) -> Enrolment | None:
        """The one in use; None without tunnels."""
        return self._enrolments[self._index] if self._enrolments else None

    @property
    def index(self) -> int:
        """The position of the one in use, from 0."""
        return self._index

    @property
    def earlier(self) -> Enrolment | None:
        """The earlier gateway that is probed for failback; None while the first is used."""
        return self._enrolments[self.failback.index] if self._index else None

    @property
    def address(self) -> str | None:
        """HOST:PORT of the current one, as in the settings."""
        return str(self.current.gateway) if self.current else None

    @property
    def resolved(self) -> tuple[Address, ...]:
        """The public addresses of the current one; empty while unknown."""
        return self.resolved_of(self.current) if self.current else ()

    def resolved_of(self, enrolment: Enrolment) -> tuple[Address, ...]:
        host = enrolment.gateway.host
        return (ip_address(host),) if enrolment.gateway.address else self._resolved.get(host, ())

    def chosen(self, enrolment: Enrolment) -> Mapping[str, Address]:
        """Which of a gateway's addresses links shall use, by link; other links use the first that they can."""
        host = enrolment.gateway.host
        return {link: address for (name, link), address in self._chosen.items() if name == host}

    def choose(self, enrolment: Enrolment, link: str, address: Address) -> None:
        self._chosen[enrolment.gateway.host, link] = address

    @property
    def names(self) -> frozenset[str]:
        """The host names to resolve."""
        return frozenset(each.gateway.host for each in self._enrolments if each.gateway.address is None)

    def set_resolved(self, found: Mapping[str, tuple[Address, ...]]) -> bool:
        """Takes resolved names; returns whether the addresses of the current gateway have changed.

        The order of addresses does not count: name servers rotate it.
        """
        before = self.resolved
        for host, addresses in found.items():
            if set(self._resolved.get(host, ())) != set(addresses):
                self._resolved[host] = addresses
        return self.resolved != before

    def fail_over(self, now: float) -> bool:
        """The current one is silent: switches to the next; returns False if there is none."""
        if len(self._enrolments) < 2:
            return False
        self.failback.on_fail_over(now)
        self._index = (self._index + 1) % len(self._enrolments)
        return True

    def fail_back(self, now: float) -> bool:
        """Switches to the earlier gateway if it is stable; returns whether it did."""
        if self._index == 0 or not self.failback.is_stable(now):
            return False
        self._index = self.failback.index
        self.failback.on_fail_back(now)
        return True
