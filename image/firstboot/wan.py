"""An access link of a home router, as the card has it: which interface it is, and how it logs in."""

from fnmatch import fnmatchcase
from typing import Self

from pydantic import Field, model_validator

from image.firstboot import modem, pppoe, vlans
from image.firstboot.modem import Modem
from image.firstboot.pppoe import Pppoe
from image.firstboot.values import Bus, Driver, Mac, Pattern
from tributary.settings.links import LinkPolicy

MATCHES = "at least one of the keys interface, driver, mac, bus, or a table modem"


class Wan(LinkPolicy):
    """One access link of a home router: the interface that fits every given rule."""

    interface: Pattern = Field(None, title="name of the interface")
    driver: Driver = Field(None, title="its driver")
    mac: Mac = Field(None, title="its MAC address")
    bus: Bus = Field(None, title="where it is plugged in, which tells two alike apart")
    vlan: int | None = Field(None, ge=1, le=4094, title="the VLAN that the provider expects; none: no VLAN tag")
    pppoe: Pppoe | None = Field(
        None, title="how to log in at a provider by PPPoE; none: by DHCP", description="a table such as [wan.dsl.pppoe]"
    )
    modem: Modem | None = Field(
        None, title="how an LTE or 5G modem dials", description="a table such as [wan.lte.modem]"
    )

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if not (self.by_device or self.interface or self.modem):
            raise ValueError(MATCHES)
        return self

    def found_by(self, name: str) -> dict[str, str]:
        """The rule by which tributary-router finds the interface of [wan.NAME], which may have been made for it."""
        if self.pppoe:
            return {"interface": pppoe.interface(name)}
        if self.vlan is not None:
            return {"interface": vlans.interface(name)}
        interface = self.interface or (modem.INTERFACE if self.modem and not self.by_device else None)
        rule = {"interface": interface, **self.by_device}
        return {key: value for key, value in rule.items() if value}

    @property
    def by_device(self) -> dict[str, str]:
        """The keys that say which device it is, whatever its interface is called."""
        given = {"driver": self.driver, "mac": self.mac, "bus": self.bus}
        return {key: value for key, value in given.items() if value}

    @property
    def rule(self) -> tuple[object, ...]:
        """All that decides which interface it is."""
        return self.interface, self.driver, self.mac.lower() if self.mac else None, self.bus, self.vlan

    def may_be(self, interface: str) -> bool:
        """Whether an interface of that name could be it, as far as the name tells."""
        if self.vlan is not None:
            return False  # the one below it may have other uses
        return self.interface is not None and fnmatchcase(interface, self.interface)
