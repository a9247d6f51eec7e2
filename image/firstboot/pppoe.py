"""A link by PPPoE (RFC 2516): what the card says of it, and the files for pppd(8) and systemd-networkd. Pure.

pppd makes an interface of its own, ``ppp-NAME`` for [wan.NAME], with the address and a default route of the link's
metric. The interface below it carries PPPoE's frames alone.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from image.firstboot import vlans
from image.firstboot.actions import PRIVATE, PROGRAM, Action, EnableUnit, WriteFile
from image.firstboot.texts import Said, filled
from image.firstboot.vlans import bare
from tributary.settings.files import Settings
from tributary.settings.values import matching

USER = "the name that the provider gave you, 1 to 255 letters, digits and signs of ASCII"
PASSWORD = "the password that the provider gave you, 1 to 255 letters, digits and signs of ASCII"
MTU = 1492
"""Bytes: a frame's 1500 without 6 for PPPoE and 2 for PPP (RFC 2516 section 7)."""

_SIGNS = r"[ -~]{1,255}"


class Pppoe(Settings):
    """How the provider knows the line."""

    user: Annotated[str, matching(_SIGNS, USER)] = Field(title="the name to log in by")
    password: Annotated[str, matching(_SIGNS, PASSWORD)] = Field(title="its password")
    vlan: int | None = Field(None, ge=1, le=4094, title="the VLAN that the provider expects; none: no VLAN tag")


def interface(name: str) -> str:
    """The one that pppd makes for [wan.NAME]."""
    return f"ppp-{name}"


def link(
    file: str, name: str, below: str, pppoe: Pppoe, said: Said, tagged: Sequence[tuple[str, object]] = ()
) -> Iterator[Action]:
    """Files and unit of [wan.NAME]; ``file`` is how the names of its files for systemd-networkd begin.

    ``tagged`` is what the file of the interface ``below`` says of VLANs on it.
    """
    carrier = below if pppoe.vlan is None else vlans.interface(name)
    if carrier != below:
        yield WriteFile(f"{file}-vlan.network", bare(carrier))
    yield WriteFile(f"{file}.network", bare(below, tagged))
    settings = f"/etc/ppp/peers/tributary.{name}"
    known = {"interface": interface(name), "carrier": carrier, "mtu": MTU, "quoted": _quoted}
    yield WriteFile(settings, filled("ppp-peer.j2", pppoe=pppoe, said=said, **known), PRIVATE)
    yield WriteFile("/etc/ppp/ip-up.d/tributary-dns", filled("ppp-ip-up.j2", domains=said.domains), PROGRAM)
    yield WriteFile("/etc/systemd/system/ppp@.service.d/50-tributary.conf", _UNIT)
    # In an instance's name - would be a slash (systemd.unit(5)).
    instance = f"tributary.{name}".replace("-", r"\x2d")
    # A restart cuts the line for seconds.
    yield EnableUnit(f"ppp@{instance}.service", reads=(settings,))


def _quoted(text: str) -> str:
    r"""As a word of pppd's options (pppd(8), OPTIONS FILES), where \ escapes the sign after it."""
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


_UNIT = """\
# Debian's unit has started when the line is up, and network.target waits for that: a box whose line is down would not
# start. This one does not wait, and is tried for ever.
[Unit]
After=systemd-networkd.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=
ExecStart=/usr/sbin/pppd call %I nodetach nolog
Restart=always
RestartSec=10
"""
