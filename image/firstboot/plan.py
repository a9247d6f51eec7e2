"""From settings and facts to the actions that make a box what its card says. Pure."""

from collections.abc import Iterable, Iterator

from image.firstboot.actions import Action, DisableUnit, EnableUnit, RemoveFile, WriteFile
from image.firstboot.console import FIXES, console
from image.firstboot.console import UNIT as CONSOLE
from image.firstboot.facts import Facts
from image.firstboot.firewall import firewall
from image.firstboot.first_start import UNIT as FIRST_START
from image.firstboot.first_start import first_start
from image.firstboot.gateway import CONVERTER, SQUID, THROTTLER, TUNNELS, gateway, paths
from image.firstboot.home import DNSMASQ, LAN, ROUTER, home
from image.firstboot.identity import identity
from image.firstboot.modem import DIALLER, MANAGER
from image.firstboot.networks import networks
from image.firstboot.settings import Card, Role
from image.firstboot.wifi import bridged
from tributary.settings.errors import CommandError, Exit

_BY_ROLE = (
    *(SQUID, CONVERTER, THROTTLER, TUNNELS, CONSOLE, FIXES),
    *(FIRST_START, ROUTER, LAN, DNSMASQ, DIALLER, MANAGER),
)
"""Units that run in some role only; the firewall runs in all."""


def plan(card: Card, facts: Facts) -> tuple[Action, ...]:
    """All that there is to do: first files, those that go before those that come, then units, likewise.

    Raises CommandError (69) if the image has no such unit.
    """
    role = card.role or facts.role
    used = card.used_by(role)
    for_lan = bridged(used, facts)
    always = (*identity(card, facts), *networks(used, facts), *firewall(for_lan))
    found = [*always, *_services(for_lan, role, facts)]
    written = {action.path for action in found if isinstance(action, WriteFile)}
    files = [RemoveFile(path) for path in facts.owned_files if path not in written]
    actions = [
        *files,
        *_outdated(used, role, facts),
        *(action for action in found if not isinstance(action, (EnableUnit, DisableUnit))),
    ]
    return (*dict.fromkeys(actions), *_units(found, facts))


def _outdated(card: Card, role: Role, facts: Facts) -> Iterator[RemoveFile]:
    """What was saved of links and paths that there are no longer: their daemon would refuse it, and not start."""
    folder, names = ("router.d", card.wan) if role is Role.ROUTER else ("throttler.d", paths(card, facts))
    for path, name in facts.saved if names else ():
        if f"/{folder}/" in path and name not in names:
            yield RemoveFile(path)


def _services(card: Card, role: Role, facts: Facts) -> Iterator[Action]:
    if role is Role.GATEWAY:
        yield from gateway(card, facts)
        yield from console(card, facts)
    elif card.lan and card.target:
        yield from home(card, card.lan, card.target)
        yield from console(card, facts)
    elif card.asks_by_page:
        yield from first_start(facts)


def _units(found: Iterable[Action], facts: Facts) -> Iterator[Action]:
    """Units of other roles end, so far as the image has them; units of this role must be there."""
    enabled = [action for action in found if isinstance(action, EnableUnit)]
    wanted = {action.unit for action in enabled}
    ending = [action.unit for action in found if isinstance(action, DisableUnit)]
    others = [unit for unit in (*ending, *_BY_ROLE, *facts.owned_units) if unit not in wanted]
    for unit in dict.fromkeys(others):
        if facts.has_unit(_file(unit)):
            yield DisableUnit(unit)
    for action in enabled:
        if not facts.has_unit(_file(action.unit)):
            raise CommandError(Exit.UNAVAILABLE, f"{action.unit} is not on this image: it was made for another role")
        yield action


def _file(unit: str) -> str:
    """The unit's file: that of a template without the instance's name (systemd.unit(5))."""
    name, at, instance = unit.partition("@")
    return f"{name}@.{instance.rpartition('.')[2]}" if at else unit
