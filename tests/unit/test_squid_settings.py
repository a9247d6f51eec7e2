import tomllib

import pytest

from squid.settings import SquidSettings
from tests.refusals import command_error
from tributary.settings.errors import Exit
from tributary.settings.files import check


def settings(text: str) -> SquidSettings:
    return check(tomllib.loads(text), SquidSettings, "squid.toml")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 1", "colour = 1: accepted: one of the keys cache, client_networks"),
        ("port = 0", "port = 0: accepted: a whole number from 1 to 65535"),
        ("port = '3128'", "port = '3128': accepted: a whole number"),
        ("listen = ['fe80::1%eth0']", "listen[0] = 'fe80::1%eth0': accepted: IPv4 or IPv6 addresses"),
        ("listen = '10.0.0.1'", "listen = '10.0.0.1': accepted: a list of IPv4"),
        ("listen = ['0.0.0.0', '::']", "'::']: accepted: a list of IPv4 or IPv6 addresses without scope"),
        ("listen = ['10.0.0.1', '0.0.0.0']", "each once; '::' alone, '0.0.0.0' as the only IPv4 address"),
        ("listen = ['10.0.0.1', '10.0.0.1']", "each once"),
        ("listen = ['10.0.0.1', '::ffff:10.0.0.1']", "each once"),
        ("client_networks = ['0.0.0.0/0']", "client_networks[0] = '0.0.0.0/0': accepted: networks"),
        ("client_networks = ['::/0']", "client_networks[0] = '::/0': accepted: networks"),
        ("client_networks = ['10.0.0.0/8', '0.0.0.0/1']", "client_networks[1] = '0.0.0.0/1': accepted: networks"),
        ("client_networks = ['2000::/3']", "never the Internet"),
        ("client_networks = ['10.0.0.1/8']", "without host bits"),
        ("client_networks = [10]", "client_networks[0] = 10: accepted: networks"),
        ("connect_ports = [25]", "without 25 (mail)"),
        ("connect_ports = ['20-30']", "connect_ports[0] = '20-30': accepted: ports"),
        ("connect_ports = [53]", "and 53 (Squid's own name look-ups)"),
        ("connect_ports = [0]", "connect_ports[0] = 0: accepted: ports from 1"),
        ("connect_ports = ['9-8']", "connect_ports[0] = '9-8': accepted: ports"),
        ("connect_ports = [true]", "connect_ports[0] = True: accepted: ports"),
        ("connect_ports = []", "connect_ports = []: accepted: a list of ports"),
        ("port = 8080\nconnect_ports = ['8000-9000']", "nor the proxy's own port, 8080"),
        ("private_targets = ['8.8.8.0/24']", "private_targets[0] = '8.8.8.0/24': accepted: networks inside 10.0.0.0/8"),
        ("private_targets = ['127.0.0.0/8']", "private_targets[0] = '127.0.0.0/8': accepted: networks inside"),
        ("private_targets = ['0.0.0.0/0']", "accepted: networks inside"),
        ("counters_port = 3128", "counters_port = 3128: accepted: a whole number from 1 to 65535, not that of port"),
        ("counters_port = 0", "counters_port = 0: accepted: a whole number from 1 to 65535"),
        ("cache = 'on'", "cache = 'on': accepted: 'off', or a size"),
        ("cache = 1000000000", "cache = 1000000000: accepted: 'off', or a size on disk with its unit"),
        ("cache = '1MB'", "at least '64MB'"),
        ("head_timeout = 30", "head_timeout = 30: accepted: a time of whole seconds with its unit"),
        ("head_timeout = '0s'", "above zero"),
        ("drain = '1500ms'", "drain = '1500ms': accepted: a time of whole seconds"),
        ("resolvers = ['dns.example']", "resolvers[0] = 'dns.example': accepted: IPv4 or IPv6 addresses"),
        ("hosts_file = 'hosts'", "hosts_file = 'hosts': accepted: an absolute path"),
        ('state_directory = "/a\\nhttp_access allow all"', "accepted: an absolute path"),
        ("state_directory = '/a b'", "state_directory = '/a b': accepted: an absolute path"),
    ],
)
def test_bad_value_is_refused_with_key_value_and_what_is_accepted(text: str, named: str) -> None:
    with command_error(Exit.USAGE, named, begins="squid.toml: "):
        settings(text)


def test_without_any_key_only_this_machine_is_served_and_nothing_cached() -> None:
    nothing = settings("")
    assert nothing.listeners == ["127.0.0.1:3128", "[::1]:3128"]
    assert [str(network) for network in nothing.clients] == ["127.0.0.0/8", "::1/128"]
    assert settings("").cache is None
    assert settings("cache = 'off'").cache is None
    assert str(settings("cache = '1GB'").cache) == "1GB"


def test_clients_elsewhere_open_every_address_unless_some_are_named() -> None:
    assert settings("client_networks = ['10.0.0.0/8']").listeners == ["3128"]
    named = settings("client_networks = ['10.0.0.0/8']\nlisten = ['10.0.0.1', 'fd00::1']\nport = 8080")
    assert named.listeners == ["10.0.0.1:8080", "[fd00::1]:8080"]
    assert settings("listen = ['0.0.0.0', '::1']").listeners == ["0.0.0.0:3128", "[::1]:3128"]


def test_everything_goes_below_the_state_directory() -> None:
    places = settings("state_directory = '/srv/squid'").paths
    assert {place.is_relative_to("/srv/squid") for place in (places.config, places.pid, places.logs, places.cache)} == {
        True
    }
