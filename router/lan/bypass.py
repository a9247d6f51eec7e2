"""By-passes that are added while the router runs: connections of the LAN that leave by a link, past the tunnels.

They are marked before the image's own rules (image/firstboot/lan.nft.j2) see them: those take a connection's mark as
it is. A connection keeps its path, whatever is added or removed while it lasts.
"""

from collections.abc import Mapping, Sequence

from router.lan.own_table import OwnTable, chain, table
from router.settings import RouterSettings
from tributary.fwmarks import BY_LINK
from tributary.settings.bypass import is_device
from tributary.settings.errors import CommandError, Exit

TABLE = "inet tributary-bypass"
BEST = "best"
_MOST = 64


def rules(lan: str, marks: Mapping[str, int]) -> str:
    """The table by which what is by-passed gets its mark."""
    begin = f'iifname != "{lan}" return', "ct state != new return", "ct mark != 0 return"
    lines = (*begin, *(f"{_matched(what)} counter ct mark set {mark:#x} return" for what, mark in marks.items()))
    return table(TABLE, chain("choose", "type filter hook prerouting priority mangle - 1; policy accept;", lines))


def _matched(what: str) -> str:
    if is_device(what):
        return f"ether saddr {what}"
    return f"ip6 daddr {what}" if ":" in what else f"ip daddr {what}"


class Bypasses:
    """Those that are added, until the settings are read again; all methods raise CommandError."""

    def __init__(self) -> None:
        self.table = OwnTable(TABLE)
        self._lan: str | None = None
        self._links: Sequence[str] = ()
        self._given: Sequence[dict[str, object]] = ()
        self._added: dict[str, str] = {}

    def change_settings(self, settings: RouterSettings) -> None:
        """Drop what was added."""
        self._lan = settings.lan if settings.bypass else None
        self._links, self._added = list(settings.wan), {}
        self._given = [{"match": each.match, "to": each.to, "added": False} for each in settings.bypassed]
        self.table.replace("")

    @property
    def listed(self) -> list[dict[str, object]]:
        """Those that were added, which count first, and those of the settings."""
        added = [{"match": [what], "to": to, "added": True} for what, to in self._added.items()]
        return [*added, *self._given]

    def set(self, what: str, to: str | None) -> None:
        """Add a by-pass, change where it leads, or remove it; for new connections."""
        if self._lan is None:
            raise CommandError(Exit.USAGE, "by-passes: accepted: with 'lan' and 'bypass = true' in the settings")
        if to is not None and to not in (BEST, *self._links):
            raise CommandError(Exit.USAGE, f"{to[:60]!r}: accepted: {', '.join((BEST, *self._links))}")
        added = {each: where for each, where in self._added.items() if each != what}
        if to is not None:
            # The first one that matches counts: the last word does.
            added = {what: to, **added}
        if len(added) > _MOST:
            raise CommandError(Exit.USAGE, f"{what}: there are {_MOST} by-passes: remove one")
        marks = {
            each: BY_LINK + (0 if where == BEST else 1 + self._links.index(where)) for each, where in added.items()
        }
        self.table.replace(rules(self._lan, marks) if marks else "")
        self._added = added
