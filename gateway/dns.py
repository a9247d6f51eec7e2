"""DNS for routers: dnsmasq(8) at the inside address, which uses the name servers of this machine. Pure."""

from gateway.settings import GatewaySettings
from tributary.wireguard import addresses

_CACHE = 10_000
"""Names."""
_AT_ONCE = 200_000
"""Questions that may wait for an answer, of all homes. One whose servers are silent has 15 times its ``dns_rate`` wait,
which is 10,000 at most: dnsmasq gives up after ten seconds, and the rules let those of five seconds come at once.
"""


def command(settings: GatewaySettings) -> list[str]:
    """dnsmasq's command line, in the foreground.

    The address need not exist yet, and may come back with the tunnels (--bind-dynamic).
    """
    return [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file=",
        "--log-facility=-",
        f"--listen-address={addresses.gateway(settings.network)}",
        "--bind-dynamic",
        "--no-hosts",
        "--domain-needed",
        "--bogus-priv",
        f"--cache-size={_CACHE}",
        f"--dns-forward-max={_AT_ONCE}",
    ]
