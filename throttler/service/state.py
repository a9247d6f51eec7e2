"""The saved state: the usage of quotas, in a file that is replaced atomically."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from throttler.policy.model import Rule
from throttler.policy.quotas import Quotas, Use, as_json
from tributary.daemons.state_file import StateFile, Tell


class Store(StateFile):
    """The file ``quotas.json`` in a directory."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "quotas.json")
        self._saved: list[dict[str, Any]] = []

    def load_into(self, quotas: Quotas, rules: Iterable[Rule], local: datetime, tell: Tell) -> None:
        """Load the saved usage into ``quotas``; a damaged file is renamed and reported."""

        def take(document: Any) -> None:
            quotas.load(document["meters"], rules, local)
            self._saved = list(document["meters"])

        self.read(take, tell)

    def save(self, uses: Sequence[Use]) -> None:
        """Replace the file if ``uses`` differ from what is in it; raises CommandError, exit 71."""
        entries = as_json(uses)
        if entries != self._saved:
            self.replace({"meters": entries})
            self._saved = entries
