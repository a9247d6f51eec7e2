"""The saved state: the usage of quotas, in a file that is replaced atomically."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from throttler.policy.model import Rule
from throttler.policy.quotas import Quotas, SavedUse, Use, saved
from tributary.daemons.state_file import StateFile, Tell, document_of


@dataclass(frozen=True)
class _Document:
    meters: list[SavedUse]


_READ = document_of(_Document)


class Store(StateFile):
    """The file ``quotas.json`` in a directory."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "quotas.json")
        self._saved = _Document([])

    def load_into(self, quotas: Quotas, rules: Iterable[Rule], local: datetime, tell: Tell) -> None:
        """Load the saved usage into ``quotas``; a damaged file is renamed and reported."""

        def take(document: object) -> None:
            found = _READ(document)
            quotas.load(found.meters, rules, local)
            self._saved = found

        self.read(take, tell)

    def save(self, uses: Sequence[Use]) -> None:
        """Replace the file if ``uses`` differ from what is in it; raises CommandError, exit 71."""
        document = _Document(saved(uses))
        if document != self._saved:
            self.replace(document)
            self._saved = document
