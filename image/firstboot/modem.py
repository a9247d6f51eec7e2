"""An LTE or 5G modem: what the card says of it, and the files for NetworkManager and ModemManager. Pure.

ModemManager speaks QMI, MBIM or AT with the modem; NetworkManager dials, and gives the modem's interface what the
provider says. It has modems alone: everything else stays systemd-networkd's.
"""

import uuid
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from image.firstboot.actions import PRIVATE, Action, EnableUnit, WriteFile
from image.firstboot.texts import Said, sections
from tributary.settings.files import Settings
from tributary.settings.values import matching

MANAGER, DIALLER = "ModemManager.service", "NetworkManager.service"
INTERFACE = "ww*"
"""The interface of a modem by QMI or MBIM, as udev names it (systemd.net-naming-scheme(7))."""

APN = "the name of the provider's access point, 1 to 100 letters, digits, dots and hyphens, such as 'internet'"
PIN = "the PIN of the SIM card, 4 to 8 digits in quotes, such as '1234'"
USER = "the name that goes with the access point, 1 to 64 letters, digits and signs of ASCII"
PASSWORD = "the password that goes with the access point, 1 to 64 letters, digits and signs of ASCII"

_SIGNS = r"[ -~]{1,64}"
_IDS = uuid.UUID("764813c2-947f-58ab-b45d-a2813483ad90")
"""The namespace of the connections' ids: a link's stays the same whenever its file is written."""

_FOR_EVER = ("autoconnect-retries", 0)
_IN_CLEAR = ("dns-over-tls", 0)
"""Whatever systemd-resolved does with its own servers: those of links rarely speak TLS."""
_FOLDER = "/etc/NetworkManager"


class Modem(Settings):
    """How the modem dials."""

    apn: Annotated[str, matching(r"[A-Za-z0-9.-]{1,100}", APN)] = Field(title="where it dials in")
    pin: Annotated[str | None, matching(r"[0-9]{4,8}", PIN)] = Field(
        None, title="the SIM card's PIN; none: it asks for none"
    )
    user: Annotated[str | None, matching(_SIGNS, USER)] = Field(None, title="the name to log in by")
    password: Annotated[str | None, matching(_SIGNS, PASSWORD)] = Field(None, title="its password")


def link(name: str, modem: Modem, said: Said) -> Iterator[Action]:
    """Files and units of [wan.NAME], which is asked for no prefix.

    Where its servers are asked for some domains alone, systemd-resolved has its own for all else, for the domain ~.
    that comes before a link's default route, which NetworkManager gives every modem.
    """
    connection = f"{_FOLDER}/system-connections/tributary-{name}.nmconnection"
    general = f"{_FOLDER}/conf.d/50-tributary.conf"
    yield WriteFile(general, _GENERAL)
    yield WriteFile(connection, _connection(name, modem, said), PRIVATE)
    yield WriteFile("/etc/systemd/system/NetworkManager-wait-online.service.d/50-tributary.conf", _ONLINE)
    yield EnableUnit(MANAGER, reads=(general,))
    # A restart cuts the link for seconds.
    yield EnableUnit(DIALLER, reads=(general, connection))


def _connection(name: str, modem: Modem, said: Said) -> str:
    """A connection in the keyfile format (nm-settings-keyfile(5))."""
    dialled = {"apn": modem.apn, "pin": modem.pin, "username": modem.user, "password": modem.password}
    general = ("id", f"tributary-{name}"), ("uuid", uuid.uuid5(_IDS, name)), ("type", "gsm"), _FOR_EVER
    search = "".join(f"~{each};" for each in said.domains) or None
    routes = [("method", "auto"), ("route-metric", said.metric), ("dns-search", search)]
    return sections(
        ("connection", [*general, *([_IN_CLEAR] if said.domains else [])]),
        ("gsm", [(key, value and _escaped(value)) for key, value in dialled.items()]),
        ("ipv4", routes),
        ("ipv6", routes),
    )


def _escaped(text: str) -> str:
    r"""As a value of GLib's key files, where \ escapes, and spaces at either end are lost."""
    return text.replace("\\", "\\\\").replace(" ", "\\s")


_GENERAL = """\
# NetworkManager has modems alone: all other interfaces are systemd-networkd's.
[main]
plugins=keyfile
no-auto-default=*
dns=systemd-resolved
hostname-mode=none

[keyfile]
unmanaged-devices=*,except:type:gsm
"""
_ONLINE = """\
# systemd-networkd-wait-online.service says when the box is online, and it does not wait for a modem.
[Service]
ExecStart=
ExecStart=/usr/bin/true
"""
