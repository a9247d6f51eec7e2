"""``--metrics`` of a daemon's command line, which loads no settings."""

from ipaddress import ip_address

from tributary.settings.cli import Arguments, parsed_by
from tributary.settings.hosts import Target, host_and_port

LISTEN = "an address and a port from 1 to 65535, such as '127.0.0.1:9466' or '[::]:9466'"


def add(command: Arguments) -> None:
    """Add ``--metrics ADDRESS:PORT``, with which Prometheus is served."""
    about = "serve Prometheus metrics there, at /metrics"
    command.add_argument("--metrics", type=parsed_by(parse, LISTEN), metavar="ADDRESS:PORT", help=about)


def parse(text: str) -> Target:
    """Read '192.0.2.1:9466' or '[2001:db8::1]:9466'; raises ValueError."""
    host, port = host_and_port(text)
    return Target(ip_address(host), port)
