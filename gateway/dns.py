"""DNS for routers: dnsmasq(8) at the inside address, which uses the name servers of this machine. Pure."""

from gateway.settings import GatewaySettings
from tributary.wireguard import addresses

_CACHE = 10_000
"""Names."""
_AT_ONCE = 5_000
"""Questions that may wait for an answer; dnsmasq's own 150 are one home with a page that has many names."""


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
