"""Changes at run time, as the daemons take them; each raises the CommandError that the daemon reports."""

from command.mapping import LIMIT
from router.control import CONTROL as ROUTER
from throttler.service.control import CONTROL as THROTTLER
from tributary.settings.units import PositiveRate


def limit_name(path: str) -> str:
    """The name of the rule that limits a path."""
    return f"{LIMIT}{path}"


def limit_rule(path: str, rate: PositiveRate) -> dict[str, str]:
    """The rule that limits a path, for all sessions together that have another subflow as well."""
    return {"name": limit_name(path), "path": path, "rate": str(rate), "shared_by": "rule"}


def limit(path: str, rate: PositiveRate | None) -> None:
    """Limit a path of the running throttler; None lifts the limit."""
    if rate is None:
        THROTTLER.ask("unset", rule=limit_name(path))
    else:
        THROTTLER.ask("set", rule=limit_rule(path, rate), last=False)


def set_link(link: str, key: str, value: str | None) -> None:
    """Change ``key`` of a link of the running router; None: what the settings say."""
    ROUTER.ask("set-link", link=link, key=key, value=value)


def set_bypass(match: str, to: str | None) -> None:
    """Have the running router lead new connections of a device, or to a network, past the tunnels; None: no more."""
    ROUTER.ask("set-bypass", match=match, to=to)
