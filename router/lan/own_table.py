"""A table of nft(8) that the daemon owns."""

from collections.abc import Iterable
from contextlib import nullcontext, suppress

from tributary.kernel import nft, nft_tables
from tributary.settings.errors import CommandError


class OwnTable:
    """The table called ``name``, such as ``inet a``, and its ``rules``; all methods raise CommandError."""

    def __init__(self, name: str, rules: str = "") -> None:
        self.name, self._rules = name, rules

    def replace(self, rules: str) -> None:
        """Have ``rules`` in place of what is there, in one transaction; without any it is removed."""
        # Without either there may be what an earlier daemon left, or no nftables at all.
        with nullcontext() if rules or self._rules else suppress(CommandError):
            nft.execute(nft.delete(self.name) + rules)
        self._rules = rules

    def restore(self) -> bool:
        """Make it again if another program has removed it, as ``nft flush ruleset`` does; returns whether one has."""
        if not self._rules or nft_tables.handle(self.name) is not None:
            return False
        nft.execute(nft.delete(self.name) + self._rules)
        return True

    def remove(self) -> None:
        if self._rules:
            self.replace("")


def table(name: str, *parts: str) -> str:
    """A table of that name and family: sets and chains."""
    return "\n".join((f"table {name} {{", *parts, "}\n"))


def chain(name: str, hook: str, lines: Iterable[str]) -> str:
    """A chain, at ``hook`` unless that is empty."""
    inside = (f"        {line}" for line in (*([hook] if hook else []), *lines))
    return "\n".join((f"    chain {name} {{", *inside, "    }"))
