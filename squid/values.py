"""The kinds of values in the settings: each reads what stands in the file or says what is accepted."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator

from squid import targets
from tributary.settings import hosts
from tributary.settings.ports import of_tcp
from tributary.settings.units import Duration, Size, within
from tributary.settings.values import accepting, as_text, reading, require

# The shortest prefix that one client network may have, by IP version. A shorter one is no operator's network but a
# share of the Internet, and a proxy for that is an open one. fc00::/7 holds all unique local addresses.
SHORTEST = {4: 8, 6: 7}

SMALLEST_CACHE = Size.parse("64MB")  # below, the directories weigh more than what they hold

# Ports that no setting opens. 25: a proxy that reaches mail servers relays spam. 53: the guard leaves it open for
# Squid's own questions to a resolver, wherever that is, so that no client's request may go there.
NEVER_PORTS = (25, 53)

CLIENTS = (
    "networks without host bits, '/8' or longer (IPv6: '/7'), such as '10.0.0.0/8' or 'fd00::/8'; never the Internet"
)
PRIVATE = f"networks inside {', '.join(map(str, targets.OPENABLE))}"
ADDRESSES = "IPv4 or IPv6 addresses without scope, such as '10.0.0.1' or 'fd00::1'"
PORTS = "ports from 1 to 65535, each as 443 or '8000-8999', without 25 (mail) and 53 (Squid's own name look-ups)"
CACHE = f"'off', or a size on disk with its unit, at least '{SMALLEST_CACHE}', such as '1GB'"
PATH = "an absolute path of letters, digits and . _ - /"
SECONDS = "a time of whole seconds with its unit, such as '30s'"


def _ports(value: object) -> str:
    found = of_tcp(value)
    require(not any(found.holds(of_tcp(port)) for port in NEVER_PORTS))
    return found.span


def _client_network(value: object) -> hosts.Network:
    network = ipaddress.ip_network(as_text(value))
    require(network.prefixlen >= SHORTEST[network.version])
    return network


def _private_network(value: object) -> hosts.Network:
    try:
        network = ipaddress.ip_network(as_text(value))
    except (ValueError, TypeError) as error:
        raise ValueError(PRIVATE) from error
    if why := targets.refusal(network):
        raise ValueError(f"{PRIVATE}; {why}")
    return network


def _address(value: object) -> hosts.Address:
    require("%" not in as_text(value))
    return ipaddress.ip_address(as_text(value))


def _cache(value: object) -> Size | None:
    if value is None or value == "off":
        return None
    return within(SMALLEST_CACHE)(value)


def _path(value: object) -> Path:
    # Squid splits its lines at blanks and knows quotes and macros: a path with any of these would say something else.
    path = str(value) if isinstance(value, Path) else as_text(value)
    require(re.fullmatch(r"/[A-Za-z0-9._/-]+", path) is not None)
    return Path(path)


ClientNetwork = Annotated[hosts.Network, accepting(CLIENTS, _client_network)]
PrivateNetwork = Annotated[hosts.Network, PlainValidator(_private_network)]
Address = Annotated[hosts.Address, accepting(ADDRESSES, _address)]
PortRange = Annotated[str, accepting(PORTS, _ports)]
Cache = Annotated[Size | None, accepting(CACHE, _cache)]
PlainPath = Annotated[Path, accepting(PATH, _path)]
Seconds = Annotated[
    Duration, accepting(SECONDS, reading(Duration, Duration.parse, lambda time: time.amount % 10**6 == 0))
]
