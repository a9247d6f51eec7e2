"""Texts of files: sections of ``key=value`` for systemd and NetworkManager, TOML for other parts. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from tributary.settings.templates import rendered

HEAD = "# Written from tributary.toml on the boot partition, and written anew when that changes.\n"


@dataclass(frozen=True)
class Said:
    """What the rest of a card makes of a link, whatever kind the link is. ``metric`` is that of its default routes.

    ``domains`` are the only ones that its servers are asked for; none: they are asked for all. From a provider who is
    asked for a prefix (RFC 8415 section 6.3), devices get their IPv6 addresses.
    """

    metric: int
    domains: Sequence[str]
    asks_for_a_prefix: bool


def sections(*given: tuple[str, Iterable[tuple[str, object]]]) -> str:
    """One section for each name with its entries, in their order, but for those that are None; a key may come again."""
    said = ((name, [f"{key}={value}\n" for key, value in entries if value is not None]) for name, entries in given)
    return "\n".join(f"[{name}]\n{''.join(lines)}" for name, lines in said)


def unneeded(interface: str, *network: tuple[str, object]) -> str:
    """What systemd-networkd is told of an ``interface`` that nothing waits for."""
    return sections(("Match", [("Name", interface)]), ("Link", [("RequiredForOnline", "no")]), ("Network", network))


def document(settings: Mapping[str, object]) -> str:
    """A file with ``settings`` that are not None; each Mapping is a table, each list of them an array of tables."""
    return HEAD + "\n" + tomli_w.dumps({key: value for key, value in settings.items() if value is not None})


def filled(template: str, **context: object) -> str:
    """What the ``template`` beside this file comes to."""
    return rendered(Path(__file__).with_name(template), **context)
