"""The console's page: where it listens, who is let in, and what is said of it. Pure.

On a home router it is at its address in the LAN, for the LAN alone. On a gateway it is for those of `admin_networks`
that are private: it is in clear. From elsewhere SSH leads to loopback.
"""

from collections.abc import Iterator, Sequence

from image.firstboot.actions import Action, EnableUnit, Owner, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card
from image.firstboot.texts import document
from squid.targets import inside_private
from tributary.api.places import CONSOLE_PORT as PORT
from tributary.settings.hosts import Network, joined

UNIT = "tributary-console.service"
FIXES = "tributary-doctor-fix.socket"
"""Where it has the doctor fix things: for nothing else."""
OFF = "off"

_FILE = "/etc/tributary/console.toml"
_READABLE = 0o640
"""By the service's group: it has the hash of a password."""


def console(card: Card, facts: Facts) -> Iterator[Action]:
    """Settings and units, unless it is off."""
    if card.console == OFF:
        return
    settings = {"listen": _listen(card), "reading": card.console, "password_hash": card.console_password_hash}
    yield WriteFile(_FILE, document(settings), _READABLE, Owner(0, facts.steering_group))
    yield EnableUnit(UNIT, reads=(_FILE,))
    yield EnableUnit(FIXES, reads=(_FILE,))


def _listen(card: Card) -> Sequence[str]:
    if card.lan:
        return [str(card.lan.address.ip), "127.0.0.1"]
    versions = {network.version for network in _admins(card)}
    # On every address, since DHCP may bring others; who may come in is up to the firewall.
    return ["0.0.0.0" if 4 in versions else "127.0.0.1", *([joined("::", PORT)] if 6 in versions else [])]


def rules(card: Card) -> Iterator[str]:
    """What of a packet's beginning lets it in, as nft(8) says it."""
    if card.console == OFF:
        return
    if card.lan:
        yield f"iifname @lan_interfaces ip daddr {card.lan.address.ip} tcp dport {PORT}"
        return
    for version, address in ((4, "ip"), (6, "ip6")):
        if networks := [str(network) for network in _admins(card) if network.version == version]:
            yield f"{address} saddr {{ {', '.join(networks)} }} tcp dport {PORT}"


def _admins(card: Card) -> Sequence[Network]:
    return list(filter(inside_private, card.admin_networks))


def home_page(card: Card) -> str | None:
    """The page's address in a home router's LAN, if there is one."""
    return f"http://{joined(str(card.lan.address.ip), PORT)}/" if card.lan and card.console != OFF else None


def told(card: Card, where: str) -> Iterator[str]:
    """Where the page is, on a box that is reached at ``where``, and how one logs in there."""
    if card.console == OFF:
        return
    if found := home_page(card):
        page = found
    elif admins := _admins(card):
        page = f"http://{joined(where, PORT)}/ from {', '.join(map(str, admins))}"
    else:
        page = f"http://127.0.0.1:{PORT}/ after ssh -L {PORT}:127.0.0.1:{PORT} tributary@{where}"
    if card.console_password_hash:
        login = "who has the password of console_password_hash may change things there"
    elif card.can_log_in:
        login = "to change things there: sudo tributary console login"
    else:
        login = "to change things there, add console_password_hash"
    yield f"Its page: {page}; {login}."
