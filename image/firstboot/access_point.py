"""What the card may say of a Wi-Fi access point for the LAN. Pure."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from image.firstboot import values
from image.firstboot.values import Country, Passphrase, Ssid, Wireless
from tributary.settings.files import Settings
from tributary.settings.values import accepting, require

LOW = range(1, 14)
"""Channels of 2.4 GHz."""

CENTRES: Mapping[int, Mapping[int, int]] = {
    20: {channel: channel for channel in (36, 40, 44, 48, 149, 153, 157, 161, 165)},
    40: {36: 38, 40: 38, 44: 46, 48: 46, 149: 151, 153: 151, 157: 159, 161: 159},
    80: {36: 42, 40: 42, 44: 42, 48: 42, 149: 155, 153: 155, 157: 155, 161: 155},
}
"""Of 5 GHz, by width in MHz: channels that need no look-out for radars, and the centre of what each is part of
(IEEE 802.11-2020, annex E, table E-4)."""

FIRST_WIRELESS = "wlan0"
"""What is taken where no interface is named, and none is there yet."""

CHANNEL = "1 to 13 (2.4 GHz), or one of 36, 40, 44, 48, 149, 153, 157, 161, 165 (5 GHz)"
WIDTH = "20; with channels of 5 GHz but 165 also 40 or 80"
PLAIN_TEXT = "a passphrase, and not the key made from it, with wpa3 = true"


def _channel(value: object) -> int:
    require(isinstance(value, int) and not isinstance(value, bool) and (value in LOW or value in CENTRES[20]))
    return int(value)  # type: ignore[call-overload, no-any-return]


class WirelessNetwork(Settings):
    """By WPA2, with a passphrase that all share."""

    country: Country = Field(title="where the box stands, which decides about channels")
    ssid: Ssid = Field(title="the network's name")
    passphrase: Passphrase = Field(title="its passphrase")


class AccessPoint(WirelessNetwork):
    """A wireless network of the box's own, by WPA3 as well where its interface can do that."""

    interface: Wireless = Field(None, title="by which interface; none: the first wireless one that is no link")
    channel: Annotated[int, accepting(CHANNEL, _channel)] = Field(6, title="its channel")
    width: Literal[20, 40, 80] = Field(20, title="its channel's width, in MHz", description=WIDTH)
    wpa3: bool = Field(False, title="let devices in by WPA3 as well; the Pi's own interface cannot")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.width > 20 and self.channel not in CENTRES[self.width]:
            raise ValueError(f"width = {WIDTH}")
        if self.wpa3 and len(self.passphrase) == values.KEY_DIGITS:
            raise ValueError(PLAIN_TEXT)
        return self
