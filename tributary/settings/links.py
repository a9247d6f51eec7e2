"""How the access links of a home router are used: what the daemon's settings and a card's say of each alike."""

from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from tributary.settings.files import Settings


class Use(StrEnum):
    """When a link is used; each ranks after those before it."""

    PRIMARY = "primary"
    BACKUP = "backup"


USES = "'primary' or 'backup'"
INSTEAD_OF_BACKUP = "use = 'backup' in place of the key backup, which is no more"


class LinkPolicy(Settings):
    """The part of a table [wan.NAME] that says when the link is used."""

    use: Use = Field(
        Use.PRIMARY, strict=False, title="primary: always; backup: when no other link works", description=USES
    )

    @model_validator(mode="before")
    @classmethod
    def _says_use(cls, given: Any) -> Any:
        if isinstance(given, dict) and "backup" in given:
            raise ValueError(INSTEAD_OF_BACKUP)
        return given

    @property
    def policy_rank(self) -> tuple[int, ...]:
        """By which links rank before their priority counts."""
        return (list(Use).index(self.use),)
