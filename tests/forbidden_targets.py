"""The table of forbidden targets that Squid and the converter are held to."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

VERDICTS = ("never", "private", "reached")

_TABLE = tomllib.loads((Path(__file__).parent / "forbidden-targets.toml").read_text())


@dataclass(frozen=True)
class Case:
    """What becomes of addresses once the operator ``opened`` networks, by verdict."""

    opened: tuple[str, ...]
    addresses: dict[str, list[str]]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Each address behind its verdict."""
        return [(verdict, address) for verdict in VERDICTS for address in self.addresses[verdict]]


CASES = [Case(tuple(row.pop("opened")), row) for row in _TABLE["case"]]
CLOSED = [(row["opened"], row["because"]) for row in _TABLE["closed"]]
