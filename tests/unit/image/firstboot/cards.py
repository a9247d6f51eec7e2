"""Parts of cards that tests put together, and what is said of a card that is not accepted."""

import pytest

from image.firstboot.reading import Wrong, read
from image.firstboot.settings import Role
from tributary.settings.errors import Exit

HOME = """\
gateway = "203.0.113.5"
[wan.dsl]
interface = "wlan0"
[wan.lte]
interface = "enx*"
[lan]
interface = "end0"
address = "192.168.77.1/24"
"""
LINKS = HOME.partition("\n")[2]
ENROLMENT = """\
[[enrolment]]
gateway = "gateway.example.net"
public_key = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
addresses = "10.84.0.16/28"
inside = "10.84.0.1"
"""
BYPASS = '[[bypass]]\nto = "dsl"\n'
LOGIN = '[wan.dsl.pppoe]\nuser = "u"\npassword = "p"\n'
PPPOE = f'[wan.dsl]\ninterface = "end1"\n{LOGIN}'
MODEM = '[wan.lte.modem]\napn = "internet"\n'
ACCESS_POINT = '[access_point]\ncountry = "DE"\nssid = "net"\npassphrase = "12345678"\n'
FORWARD = """\
[[forward]]
ports = ["tcp/443"]
device = "192.168.77.20"
to_port = 8443
"""
WIFI = '[wifi]\ncountry = "DE"\nssid = "net"\n'


def lines(text: str | bytes, role: Role = Role.GATEWAY) -> tuple[str, ...]:
    """What is said of a file that is not accepted."""
    with pytest.raises(Wrong) as caught:
        read(text.encode() if isinstance(text, str) else text, role)
    assert caught.value.code == Exit.USAGE
    assert all(line.startswith("tributary.toml: ") and "\n" not in line for line in caught.value.lines)
    return caught.value.lines
