"""What outlives the daemon: how much of the quotas was used, in a file that is replaced whole."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from throttler.policy.model import Rule
from throttler.policy.quotas import Quotas
from tributary.daemons.state_file import StateFile

DIRECTORY = Path("/var/lib/tributary/throttler")


class Store:
    """The file ``quotas.json`` in a directory, which is made when the first state is saved."""

    def __init__(self, where: Path) -> None:
        self._file = StateFile(where / "quotas.json")
        self._saved: list[dict[str, Any]] = []

    def load_into(self, quotas: Quotas, rules: Iterable[Rule], local: datetime) -> None:
        """Give ``quotas`` what was saved last, if anything was; raises Failure, exit 71, if the file is not ours."""

        def take(document: Any) -> None:
            self._saved = list(document["meters"])
            quotas.load(self._saved, rules, local)

        self._file.read(take)

    def save(self, entries: list[dict[str, Any]]) -> None:
        """Replace the file if ``entries`` differ from what is in it; raises Failure, exit 71."""
        if entries != self._saved:
            self._file.replace({"meters": entries})
            self._saved = entries
