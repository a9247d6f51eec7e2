"""What outlives the daemon: how much of the quotas was used, in a file that is replaced whole."""

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from throttler.policy.model import Rule
from throttler.policy.quotas import Quotas
from tributary.settings.failure import Exit, Failure

DIRECTORY = Path("/var/lib/tributary/throttler")


class Store:
    """The file ``quotas.json`` in a directory, which is made when the first state is saved."""

    def __init__(self, where: Path) -> None:
        self._file = where / "quotas.json"
        self._saved: list[dict[str, Any]] = []

    def load_into(self, quotas: Quotas, rules: Iterable[Rule], local: datetime) -> None:
        """Give ``quotas`` what was saved last, if anything was; raises Failure, exit 71, if the file is not ours."""
        try:
            self._saved = list(json.loads(self._file.read_text())["meters"])
            quotas.load(self._saved, rules, local)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Failure(Exit.SYSTEM, f"{self._file}: cannot be read ({error!r}): mend it or remove it") from error

    def save(self, entries: list[dict[str, Any]]) -> None:
        """Replace the file if ``entries`` differ from what is in it; raises Failure, exit 71."""
        if entries == self._saved:
            return
        new = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps({"meters": entries}, indent=1))
            new.replace(self._file)
        except OSError as error:
            raise Failure(Exit.SYSTEM, f"{self._file}: cannot be written: {error}") from error
        self._saved = entries
