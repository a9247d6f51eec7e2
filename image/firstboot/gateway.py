"""The role gateway: Squid, the native converter, tunnels of home routers, a throttler without rules yet. Pure."""

from collections.abc import Iterator, Mapping

from gateway.settings import GatewaySettings
from image.firstboot import figures
from image.firstboot.actions import Action, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card
from image.firstboot.texts import document
from tributary.settings.hosts import CONVERT_PORT
from tributary.wireguard.addresses import BLOCK
from tributary.wireguard.addresses import gateway as inside_address

SQUID, CONVERTER, THROTTLER = "tributary-squid.service", "tributary-converter.service", "tributary-throttler.service"
TUNNELS = "tributary-gateway.service"
SQUID_PORT, HTTP_PORT, SOCKS_PORT = 3128, 3129, 1080
PORTS = (SQUID_PORT, HTTP_PORT, SOCKS_PORT, CONVERT_PORT)
"""Squid's, and those of the native converter."""

IDLE = "124m"
"""How long a connection may be silent: as long as behind any address translation (RFC 5382, REQ-5). Beside the web
there are logins and messengers, which may have nothing to say for long."""

_TUNNELS_FILE = "/etc/tributary/gateway.toml"
_OPTIONS_FILE = "/etc/systemd/system/tributary-throttler.service.d/tributary_card.conf"
_SQUID_STATE = "/var/lib/tributary/squid"
"""The one folder that the unit of the packages lets Squid write to."""
_ACCESS_LOG = "/var/log/tributary-converter/access.log"


def gateway(card: Card, facts: Facts) -> Iterator[Action]:
    """Settings and units."""
    clients = [str(network) for network in card.client_networks]
    squid = {"client_networks": clients, "state_directory": _SQUID_STATE}
    yield WriteFile("/etc/tributary/squid.toml", document(squid))
    routers = tunnels(card)
    if routers:
        # Warned of are tuples, for which JSON has lists alone, and so has TOML.
        given = routers.model_dump(mode="json", exclude_unset=True, warnings=False)
        yield WriteFile(_TUNNELS_FILE, document(given))
        # A restart would stop all of them; the converter listens inside, and comes after it.
        yield EnableUnit(TUNNELS, gently=True, reads=(_TUNNELS_FILE,))
    yield WriteFile("/etc/tributary/converter.toml", _converter(card, clients, routers))
    yield WriteFile("/etc/tributary/throttler.toml", _policy(paths(card, facts)))
    # Sessions end here: the kernel's own events tell of their subflows.
    options = f"--source kernel --metrics {_metrics(card, figures.THROTTLER)}"
    yield WriteFile(_OPTIONS_FILE, f'[Service]\nEnvironment="OPTIONS={options}"\n')
    for unit in (SQUID, CONVERTER, THROTTLER):
        yield EnableUnit(unit)


def tunnels(card: Card) -> GatewaySettings | None:
    """How home routers are let in; None: they are not."""
    return card.routers.model_copy(update={"name": card.public_name}) if card.public_name else None


def client_side(card: Card, facts: Facts) -> tuple[str, ...]:
    """The interfaces towards clients that are here: those that the card names, else all wired ones."""
    here = (*facts.wired, *facts.wireless)
    return tuple(name for name in card.network if name in here) or facts.wired


def _converter(card: Card, clients: list[str], routers: GatewaySettings | None) -> str:
    # A converter without clients takes loopback addresses alone: never an open proxy.
    here = "[::]" if clients else "127.0.0.1"
    who: dict[str, object] = {"networks": clients}
    if routers:
        inside = str(routers.network)
        # A router has an address for each of its tunnels, and is one client.
        who = {"networks": [*clients, inside], "shared": [{"network": inside, "prefix": BLOCK}]}
    listeners: list[dict[str, object]] = [
        {"name": "web", "kind": "http", "address": f"{here}:{HTTP_PORT}"},
        {"name": "socks", "kind": "socks5", "address": f"{here}:{SOCKS_PORT}"},
        {"name": "convert", "kind": "convert", "address": f"{here}:{CONVERT_PORT}", "cookies": True},
    ]
    if routers and not clients:
        # Routers alone: by the one listener that they use, which nothing outside of the tunnels reaches.
        listeners = [{**listeners[-1], "address": f"{inside_address(routers.network)}:{CONVERT_PORT}"}]
    return document(
        {
            "clients": who,
            "timeouts": {"idle": IDLE},
            "metrics": {"address": _metrics(card, figures.CONVERTER)},
            "log": {"access": _ACCESS_LOG},
            "listen": listeners,
        }
    )


def _metrics(card: Card, port: int) -> str:
    return figures.address(card.metrics_networks, port) if card.metrics_networks else f"127.0.0.1:{port}"


def paths(card: Card, facts: Facts) -> dict[str, str]:
    """Names of the throttler's paths, and their interfaces: routers' subflows are inside of their tunnels."""
    routers = tunnels(card)
    paths = {"tunnels": routers.interface} if routers else {}
    if card.client_networks or not routers:
        # The throttler refuses an interface that is not there; lo always is.
        names = client_side(card, facts) or ("lo",)
        paths |= {f"link{number}": name for number, name in enumerate(names, start=1)}
    return paths


def _policy(paths: Mapping[str, str]) -> str:
    """A policy that counts, and throttles nothing."""
    return document(
        {
            "paths": {path: {"interface": interface} for path, interface in paths.items()},
            "rules": [{"name": "count-only", "min_subflows": 1, "dry_run": True}],
        }
    )
