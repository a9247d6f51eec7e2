"""Where a daemon serves its metrics."""

from ipaddress import ip_address
from typing import Annotated

from pydantic import Field, PlainSerializer

from tributary.settings.cli import Arguments
from tributary.settings.errors import invalid_value
from tributary.settings.files import Settings
from tributary.settings.hosts import Target, host_and_port
from tributary.settings.values import accepting, or_none, reading

LISTEN = "an address and a port from 1 to 65535, such as '127.0.0.1:9466' or '[::]:9466'"


def add_argument(command: Arguments) -> None:
    """Add ``--metrics ADDRESS:PORT``, with which Prometheus is served."""
    about = "serve Prometheus metrics there, at /metrics"
    command.add_argument("--metrics", type=argument, metavar="ADDRESS:PORT", help=about)


def argument(text: str) -> Target:
    """Read what the command line has; raises CommandError, exit 64."""
    try:
        return parse(text)
    except ValueError as error:
        raise invalid_value("command line", "--metrics", text, LISTEN) from error


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

    address: ListenAddress = Field(default=None, title="where Prometheus finds /metrics; none: nowhere")
