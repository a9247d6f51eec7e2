"""The settings in force: the file's, or those of a trial, with what was set of links since."""

from pathlib import Path

from router.settings import LinkChange, RouterSettings, read
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check


class LiveSettings:
    """Of the settings' ``file``."""

    def __init__(self, file: Path, settings: RouterSettings) -> None:
        self.file = file
        self._settings = settings
        self._changes: dict[str, LinkChange] = {}

    @property
    def current(self) -> RouterSettings:
        return self._settings.with_changes(self._changes)

    def replace(self, settings: RouterSettings) -> None:
        """Drops what was set of links."""
        self._settings, self._changes = settings, {}

    def set(self, link: str, key: str, value: str | None) -> None:
        """Changes a key of a link; None: to what the file says now. Raises CommandError, exit 64."""
        if link not in self._settings.wan:
            raise CommandError(Exit.USAGE, f"{link}: no such link; these are: {', '.join(self._settings.wan)}")
        change = check(self._given(link) | {key: value}, LinkChange, where=link)
        if value is None and link in (kept := read(self.file)).wan:
            wan = self._settings.wan[link].model_copy(update={key: getattr(kept.wan[link], key)})
            self._settings = self._settings.model_copy(update={"wan": {**self._settings.wan, link: wan}})
        self._changes[link] = change

    def shown(self, link: str) -> dict[str, str]:
        return {key: str(value) for key, value in self._given(link).items()}

    def _given(self, link: str) -> dict[str, object]:
        return self._changes.get(link, LinkChange()).given
