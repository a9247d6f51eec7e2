"""A link by PPPoE (RFC 2516): what the card says of it, and the files for pppd(8) and systemd-networkd. Pure.

pppd makes an interface of its own, ``ppp-NAME`` for [wan.NAME], with the address and a default route of the link's
metric. The interface below it carries PPPoE's frames alone.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from image.firstboot import vlans
from image.firstboot.actions import PRIVATE, PROGRAM, Action, EnableUnit, WriteFile
from image.firstboot.said import Said
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
    yield WriteFile(settings, _settings(name, carrier, pppoe, said), PRIVATE)
    yield WriteFile("/etc/ppp/ip-up.d/tributary-dns", _servers(said.domains), PROGRAM)
    yield WriteFile("/etc/systemd/system/ppp@.service.d/50-tributary.conf", _UNIT)
    # In an instance's name - would be a slash (systemd.unit(5)).
    instance = f"tributary.{name}".replace("-", r"\x2d")
    # A restart cuts the line for seconds.
    yield EnableUnit(f"ppp@{instance}.service", reads=(settings,))


def _settings(name: str, carrier: str, pppoe: Pppoe, said: Said) -> str:
    lines = (
        "plugin pppoe.so",
        f"nic-{carrier}",
        f"ifname {interface(name)}",
        f"user {_quoted(pppoe.user)}",
        f"password {_quoted(pppoe.password)}",
        "noauth",  # of the provider to us
        f"mtu {MTU}",
        f"mru {MTU}",
        "+ipv6" if said.asks_for_a_prefix else "noipv6",
        "defaultroute",
        f"defaultroute-metric {said.metric}",
        "usepeerdns",
        "ipparam tributary",
        # For ever, and not so often that a provider locks whoever has a wrong password.
        "persist",
        "maxfail 0",
        "holdoff 10",
        # A line that is silent for 30 s is dialled again.
        "lcp-echo-interval 10",
        "lcp-echo-failure 3",
    )
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    r"""As a word of pppd's options (pppd(8), OPTIONS FILES), where \ escapes the sign after it."""
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def _servers(domains: Sequence[str]) -> str:
    """What has to be said of servers first comes before they are known: none is asked for more meanwhile."""
    kept = f"""\
    resolvectl domain "$PPP_IFACE" {" ".join(f"'~{each}'" for each in domains)}
    resolvectl default-route "$PPP_IFACE" no
    resolvectl dnsovertls "$PPP_IFACE" no
"""
    return f"""\
#!/bin/sh -e
# What a link by PPPoE was told of DNS servers goes to systemd-resolved, which forgets it when the interface is gone.
if [ "$PPP_IPPARAM" = tributary ] && [ -n "$DNS1" ]; then
{kept if domains else ""}\
    resolvectl dns "$PPP_IFACE" $DNS1 $DNS2
fi
"""


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
