"""Who is asked for names: values on the card, and a file for systemd-resolved. Pure.

An enrolled box asks its gateway, inside a tunnel. `dns` says who is asked while no tunnel leads there, or if there is
no gateway of that kind: nobody, name servers by TLS (RFC 7858), or those of the links, in clear.

Two names are asked of the links' servers all the same, since everything else waits for them: the gateway's, and those
of the servers that say what time it is, without which no certificate is valid on a box that has no clock of its own.
"""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated

from image.firstboot.actions import Action, EnableUnit, WriteFile
from tributary.settings.hosts import LABEL
from tributary.settings.values import accepting, as_text, or_none, require
from tributary.wireguard.enrolment import Enrolment

NOBODY, LINKS = "nobody", "links"
MOST_SERVERS = 8

RESOLVED = "systemd-resolved.service"
_FILE = "/etc/systemd/resolved.conf.d/50-tributary.conf"

DNS = (
    f"'{NOBODY}', '{LINKS}' (in clear), or a list of 1 to {MOST_SERVERS} name servers that are asked by TLS, each an"
    " address, # and the name in its certificate, such as ['9.9.9.9#dns.quad9.net']"
)
TIME = "debian.pool.ntp.org"
"""Of systemd-timesyncd as Debian builds it."""

Others = str | tuple[str, ...]
"""NOBODY, LINKS, or who is asked by TLS: ADDRESS#NAME each."""


def _server(value: object) -> str:
    """A name server that is asked by TLS, and the name in its certificate: ADDRESS#NAME."""
    address, sign, name = as_text(value).partition("#")
    require(sign == "#" and len(name) <= 253 and re.fullmatch(rf"{LABEL}(\.{LABEL})+", name) is not None)
    return f"{ip_address(address)}#{name}"


def _others(value: object) -> Others:
    if isinstance(value, (list, tuple)):
        require(1 <= len(value) <= MOST_SERVERS)
        return tuple(map(_server, value))
    text = as_text(value)
    require(text in (NOBODY, LINKS))
    return text


Dns = Annotated[Others | None, accepting(DNS, or_none(_others))]


def resolved(enrolments: tuple[Enrolment, ...], others: Others) -> Iterator[Action]:
    """What systemd-resolved asks for the box itself, and for dnsmasq where that does not ask the gateway."""
    yield WriteFile(_FILE, "[Resolve]\n" + "".join(f"{key}={value}\n" for key, value in _settings(enrolments, others)))
    yield EnableUnit(RESOLVED, reads=(_FILE,))


def _settings(enrolments: tuple[Enrolment, ...], others: Others) -> Iterator[tuple[str, str]]:
    """The domain ~. leads all names to these servers, past those of the links (systemd-resolved.service(8)).

    Nor is a name of one word called out by the links, to whoever is there (RFC 4795, RFC 6762).
    """
    yield "LLMNR", "no"
    yield "MulticastDNS", "no"
    if not isinstance(others, str):
        yield "DNS", " ".join(others)
        yield "DNSOverTLS", "yes"
        yield "Domains", "~."
    elif others == NOBODY:
        yield "DNS", str(enrolments[0].inside)
        yield "Domains", "~."


def asked_of_links(enrolments: tuple[Enrolment, ...], others: Others) -> tuple[str, ...]:
    """The domains that are asked of the links' servers, where these are not asked for everything."""
    if others == LINKS:
        return ()
    return (*dict.fromkeys(each.gateway.host for each in enrolments if each.gateway.address is None), TIME)
