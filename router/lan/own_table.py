"""A table of nft(8) that the daemon owns."""

from collections.abc import Iterable
from contextlib import nullcontext, suppress

from tributary.kernel import nft, nft_tables
from tributary.settings.errors import CommandError


class OwnTable:
    """The table called ``name``, such as ``inet a``; all methods raise CommandError."""

    def __init__(self, name: str) -> None:
        self._name, self._rules = name, ""

    def replace(self, rules: str) -> None:
        """Have ``rules`` in place of what is there, in one transaction; without any it is removed."""
        # Without either there may be what an earlier daemon left, or no nftables at all.
        with nullcontext() if rules or self._rules else suppress(CommandError):
            nft.execute(nft.delete(self._name) + rules)
        self._rules = rules

    def restore(self) -> None:
        """Make it again if another program has removed it, as ``nft flush ruleset`` does."""
        if self._rules and nft_tables.handle(self._name) is None:
            nft.execute(nft.delete(self._name) + self._rules)

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
