"""Which gateway the tunnels lead to, its addresses, and the applied configuration of the tunnels. Pure."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from router.links.model import Link
from router.settings import RouterSettings
from router.tunnels.model import TunnelConfig
from tributary.kernel.state import Address
from tributary.settings.probing import Probe
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.tunnels import Tunnels

SOON = 3600.0
"""Seconds after a failback in which a failure of the gateway counts as flapping."""
MOST_PATIENCE = 16
"""The maximal multiple of ``tunnels.return_after``."""


class FailbackMonitor:
    """Whether an earlier gateway is stable again, while a later one is used; the caller passes the clock.

    Failback cuts the open connections, since they end at the gateway that is left. So the earlier gateway must have
    answered without a failure for some time first; if it fails soon after a failback, for twice that time, and so on.
    Probes one earlier gateway after the other; ``index`` is that of the one whose turn it is, from 0.
    """

    def __init__(self, probe: Probe, tunnels: Tunnels) -> None:
        self._probe = probe
        self._after = tunnels.return_after.seconds
        self._backoff = 1
        self._failed_back = float("-inf")
        self._failed_rounds: dict[int, int] = {}
        self._watch(0)

    def _watch(self, place: int) -> None:
        self.index = place
        self.since: float | None = None
        """When the answers without a failure began, None if the last probe had none."""
        self._failures = 0
        self._asked = float("-inf")

    @property
    def next_due(self) -> float:
        return self._asked + self._probe.interval.seconds

    @property
    def required(self) -> float:
        """Seconds without a failure before the failback."""
        return self._after * self._backoff

    def start_due(self, now: float) -> bool:
        """Whether a probe is due; the caller then sends it."""
        if now < self.next_due:
            return False
        self._asked = now
        return True

    def record(self, answered: bool, used: int, now: float) -> None:
        """Takes the result of a probe; ``used`` is the index of the gateway in use."""
        if answered:
            self._failures = 0
            self.since = now if self.since is None else self.since
            return
        self.since = None
        self._failures += 1
        if self._failures >= self._probe.failures:
            self._failed_rounds[self.index] = self._failed_rounds.get(self.index, 0) + 1
            self._watch((self.index + 1) % max(used, 1))

    @property
    def turn(self) -> int:
        """Which of the gateway's addresses to probe, from 0: the next one after 1, 2, 4, ... failed rounds."""
        return self._failed_rounds.get(self.index, 0).bit_length()

    def is_stable(self, now: float) -> bool:
        return self.since is not None and now - self.since >= self.required

    def on_fail_back(self, now: float) -> None:
        self._failed_back = now
        self._watch(0)

    def on_fail_over(self, now: float) -> None:
        """The gateway in use has failed: the time doubles if that was soon after a failback."""
        is_soon = now - self._failed_back < SOON
        self._backoff = min(2 * self._backoff, MOST_PATIENCE) if is_soon else 1
        self._watch(0)


class Gateways:
    """The configured gateways, of which one is used at a time. When it is silent, the next one is.

    It fails back to an earlier gateway that is stable (``failback``).
    """

    def __init__(self, settings: RouterSettings, used: str | None) -> None:
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
        """Switches to the earlier gateway if it is stable; returns whether. ``links`` use what has answered."""
        if self.earlier is None or not self.failback.is_stable(now):
            return False
        for link in links:
            if address := self.outside_of_earlier(link):
                self._chosen[self.earlier.gateway.host, link.name] = address
        self.index = self.failback.index
        self.failback.on_fail_back(now)
        return True
