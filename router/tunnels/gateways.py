"""Which gateway the tunnels lead to, its addresses, and the applied configuration of the tunnels. Pure."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from router.links.model import Link
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
        self._settings = settings
        self.index = self._position(used)
        """That of the one in use, from 0."""
        self._resolved: dict[str, tuple[Address, ...]] = {}
        self._chosen: dict[tuple[str, str], Address] = {}
        """By the names of gateway and link: of several addresses the one in use."""
        self.applied: dict[str, TunnelConfig] = {}
        """By the interface's name, its last configuration."""
        self.failback = FailbackMonitor(settings.probe, settings.tunnels)

    def change_settings(self, settings: RouterSettings) -> None:
        """A gateway that is still configured stays in use, with its addresses. All tunnels are configured again."""
        used, before, self._settings = self.address, self._settings, settings
        if (settings.enrolment, settings.probe, settings.tunnels) != (before.enrolment, before.probe, before.tunnels):
            self.index = self._position(used)
            self.failback = FailbackMonitor(settings.probe, settings.tunnels)
        self.applied.clear()

    def _position(self, gateway: str | None) -> int:
        places = [str(each.gateway) for each in self._settings.enrolment]
        return places.index(gateway) if gateway in places else 0

    @property
    def current(self) -> Enrolment | None:
        """The one in use; None without tunnels."""
        return self._settings.enrolment[self.index] if self._settings.enrolment else None

    @property
    def earlier(self) -> Enrolment | None:
        """The earlier gateway that is probed for failback; None while the first is used."""
        return self._settings.enrolment[self.failback.index] if self.index else None

    @property
    def address(self) -> str | None:
        """HOST:PORT of the current one, as in the settings."""
        return str(self.current.gateway) if self.current else None

    @property
    def resolved(self) -> tuple[Address, ...]:
        """The public addresses of the current one; empty while unknown."""
        return self._resolved_of(self.current) if self.current else ()

    def _resolved_of(self, enrolment: Enrolment) -> tuple[Address, ...]:
        host = enrolment.gateway.host
        return (ip_address(host),) if enrolment.gateway.address else self._resolved.get(host, ())

    def _usable(self, enrolment: Enrolment, link: Link) -> list[Address]:
        """The gateway's addresses of the IP versions of the link's next hops."""
        return [each for each in self._resolved_of(enrolment) if link.path(each.version)]

    def outside(self, link: Link) -> Address | None:
        """The one of the current gateway's addresses that a link uses; None if there is none."""
        usable = self._usable(self.current, link) if self.current else []
        chosen = self._chosen.get((self.current.gateway.host, link.name)) if self.current else None
        return chosen if chosen in usable else next(iter(usable), None)

    def rotate(self, link: Link) -> None:
        """Has a link use the next address of the current gateway."""
        if self.current and (now := self.outside(link)):
            usable = self._usable(self.current, link)
            self._chosen[self.current.gateway.host, link.name] = usable[(usable.index(now) + 1) % len(usable)]

    def outside_of_earlier(self, link: Link) -> Address | None:
        """The address of the earlier gateway that is probed now, of those that a link can reach."""
        usable = self._usable(self.earlier, link) if self.earlier else []
        return usable[self.failback.turn % len(usable)] if usable else None

    @property
    def names(self) -> frozenset[str]:
        """The host names to resolve."""
        return frozenset(each.gateway.host for each in self._settings.enrolment if each.gateway.address is None)

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
        if len(self._settings.enrolment) < 2:
            return False
        self.failback.on_fail_over(now)
        self.index = (self.index + 1) % len(self._settings.enrolment)
        return True

    def fail_back(self, now: float, links: Iterable[Link]) -> bool:
        """Switches to the earlier gateway if it is stable; returns whether it did. ``links`` use the address that
        has answered.
        """
        if self.earlier is None or not self.failback.is_stable(now):
            return False
        for link in links:
            if address := self.outside_of_earlier(link):
                self._chosen[self.earlier.gateway.host, link.name] = address
        self.index = self.failback.index
        self.failback.on_fail_back(now)
        return True
