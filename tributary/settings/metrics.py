"""Where a daemon serves its metrics."""

from ipaddress import ip_address
from typing import Annotated

from pydantic import Field, PlainSerializer

from tributary.settings.files import Settings
from tributary.settings.hosts import Target, host_and_port
from tributary.settings.values import accepting, or_none, reading

LISTEN = "an address and a port from 1 to 65535, such as '127.0.0.1:9466' or '[::]:9466'"


def parse(text: str) -> Target:
    """Read '192.0.2.1:9466' or '[2001:db8::1]:9466'; raises ValueError."""
    host, port = host_and_port(text)
    return Target(ip_address(host), port)


ListenAddress = Annotated[
    Target | None,
    accepting(LISTEN, or_none(reading(Target, parse))),
    PlainSerializer(str, when_used="unless-none"),
]


class Metrics(Settings):
    """Metrics for Prometheus, which everybody who reaches the address can read."""

    address: ListenAddress = Field(
        default=None, title="where Prometheus finds /metrics; none: nowhere", description=LISTEN
    )
