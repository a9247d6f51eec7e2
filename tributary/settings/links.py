"""How the access links of a home router are used: what the daemon's settings and a card's say of each alike."""

from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from tributary.settings.files import Settings
from tributary.settings.units import PositiveRate


class Use(StrEnum):
    """When a link is used; each ranks after those before it."""

    PRIMARY = "primary"
    OVERFLOW = "overflow"
    BACKUP = "backup"


USES = "'primary', 'overflow' or 'backup'"
RATE = PositiveRate.ACCEPTED
INSTEAD_OF_BACKUP = "use = 'backup' in place of the key backup, which is no more"


class LinkPolicy(Settings):
    """The part of a table [wan.NAME] that says when the link is used."""

    use: Use = Field(
        Use.PRIMARY,
        strict=False,
        title="primary: always; overflow: when the others are full; backup: when no other link works",
        description=USES,
    )

    download: PositiveRate | None = Field(None, title="what it carries from the Internet", description=RATE)
    upload: PositiveRate | None = Field(None, title="what it carries to the Internet", description=RATE)

    @model_validator(mode="before")
    @classmethod
    def _says_use(cls, given: Any) -> Any:
        if isinstance(given, dict) and "backup" in given:
            raise ValueError(INSTEAD_OF_BACKUP)
        return given

    @property
    def written(self) -> dict[str, object]:
        """The keys that say something else than when they are left out, and ``use``, as they stand in a file."""
        given = self.model_dump(include=set(LinkPolicy.model_fields), exclude_defaults=True, mode="json")
        return {"use": self.use.value, **given}

    @property
    def policy_rank(self) -> tuple[int, ...]:
        """By which links rank before their priority counts."""
        return (list(Use).index(self.use),)
