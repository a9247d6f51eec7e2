"""Which gateway the tunnels lead to, where it is, and what the tunnels' interfaces were given. Pure."""

from collections.abc import Mapping
from ipaddress import ip_address

from router.observed import Address
from router.scout import Scout
from router.settings import RouterSettings
from router.tunnels import Setup
from tributary.wireguard.enrolment import Enrolment


class Gateways:
    """The gateways of the settings, of which one is used at a time: the next, when it has been silent.

    It goes back to an earlier one that has answered for a while (``scout``).
    """

    def __init__(self, settings: RouterSettings, used: str | None = None) -> None:
        """``used`` is where the one is that an earlier start used, as the settings said."""
        self._enrolments = settings.enrolment
        self._number = self._place_of(used)
        self._found: dict[str, tuple[Address, ...]] = {}
        self._chosen: dict[tuple[str, str], Address] = {}
        """By the gateway's name and the link's: of several addresses the one that is tried now."""
        self.given: dict[str, Setup] = {}
        """By the interface's name, what it was given last."""
        self._scouted_by = settings.probe, settings.tunnels
        self.scout = Scout(*self._scouted_by)

    def change_settings(self, settings: RouterSettings) -> None:
        """Go by other settings from now on: a gateway that is still there stays in use, and where it is stays known.

        Interfaces are given everything again.
        """
        used = self.place
        if settings.enrolment != self._enrolments or (settings.probe, settings.tunnels) != self._scouted_by:
            self._enrolments = settings.enrolment
            self._number = self._place_of(used)
            self._scouted_by = settings.probe, settings.tunnels
            self.scout = Scout(*self._scouted_by)
        self.given.clear()

    def _place_of(self, gateway: str | None) -> int:
        places = [str(each.gateway) for each in self._enrolments]
        return places.index(gateway) if gateway in places else 0

    @property
    def current(self) -> Enrolment | None:
        """The one that is used; None without tunnels."""
        return self._enrolments[self._number] if self._enrolments else None

    @property
    def number(self) -> int:
        """Of the one that is used, as they stand in the settings, from 0."""
        return self._number

    @property
    def earlier(self) -> Enrolment | None:
        """The one before it in the order that is asked whether it answers again; None while the first is used."""
        return self._enrolments[self.scout.place] if self._number else None

    @property
    def place(self) -> str | None:
        """Where the current one is, as the settings say."""
        return str(self.current.gateway) if self.current else None

    @property
    def found(self) -> tuple[Address, ...]:
        """Where the current one is: its addresses outside; none while they are not known."""
        return self.found_of(self.current) if self.current else ()

    def found_of(self, enrolment: Enrolment) -> tuple[Address, ...]:
        """Where any of them is."""
        host = enrolment.gateway.host
        return (ip_address(host),) if enrolment.gateway.address else self._found.get(host, ())

    def chosen(self, enrolment: Enrolment) -> Mapping[str, Address]:
        """Which of a gateway's addresses links are to use, by the links' names; others use the first that they can."""
        host = enrolment.gateway.host
        return {link: address for (name, link), address in self._chosen.items() if name == host}

    def choose(self, enrolment: Enrolment, link: str, address: Address) -> None:
        """From now on the link uses this one."""
        self._chosen[enrolment.gateway.host, link] = address

    @property
    def names(self) -> frozenset[str]:
        """What has to be looked up."""
        return frozenset(each.gateway.host for each in self._enrolments if each.gateway.address is None)

    def told(self, found: Mapping[str, tuple[Address, ...]]) -> bool:
        """What names were found to mean, those that could be found; returns whether the current one's has changed.

        An order that changes from answer to answer means nothing.
        """
        before = self.found
        for host, addresses in found.items():
            if set(self._found.get(host, ())) != set(addresses):
                self._found[host] = addresses
        return self.found != before

    def give_up(self, now: float) -> bool:
        """The current one is silent: returns whether there is another one, which is used from now on."""
        if len(self._enrolments) < 2:
            return False
        self.scout.left(now)
        self._number = (self._number + 1) % len(self._enrolments)
        return True

    def go_back(self, now: float) -> bool:
        """Whether an earlier one has answered for long enough: it is used from now on."""
        if self._number == 0 or not self.scout.is_steady(now):
            return False
        self._number = self.scout.place
        self.scout.returned(now)
        return True
