"""How the access links of a home router are used: what the daemon's settings and a card's say of each alike."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, PlainSerializer, model_validator

from tributary.settings.files import Settings
from tributary.settings.hours import Hours
from tributary.settings.units import PositiveRate, Size, within
from tributary.settings.values import accepting, or_none


class Use(StrEnum):
    """When a link is used; each ranks after those before it."""

    PRIMARY = "primary"
    OVERFLOW = "overflow"
    BACKUP = "backup"


USES = "'primary', 'overflow' or 'backup'"
RATE = PositiveRate.ACCEPTED
ADAPTS = "adapt = true only with download, upload or both, which are then the most"
CAP = "a size above zero with its unit (MB, GB, TB and others), such as '50GB'"
CAP_DAY = "a day of the month from 1 to 31, with monthly_cap alone"
SPANS = "a list of spans of local time, such as ['22:00-06:00', '12:00-13:30']"


def _hours(value: object) -> tuple[Hours, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError
    return tuple(map(Hours.parse, value))


def _spans(hours: tuple[Hours, ...]) -> list[str]:
    return list(map(str, hours))


class LinkPolicy(Settings):
    """The part of a table [wan.NAME] that says when the link is used."""

    use: Use = Field(
        Use.PRIMARY,
        strict=False,
        title="primary: always; overflow: when the others are full; backup: when no other link works",
        description=USES,
    )
    priority: int = Field(
        100, ge=1, le=1000, title="the lowest carries first subflows; of equals, through tunnels, the quickest"
    )

    download: PositiveRate | None = Field(
        None, title="what it surely carries from the Internet; none: packets wait in the modem"
    )
    upload: PositiveRate | None = Field(None, title="the same to the Internet")
    adapt: bool = Field(False, title="download and upload are the most: rates follow the link's delay")

    metered: bool = Field(False, title="it costs by the byte: probed less, and spared if others can")
    monthly_cap: Annotated[Size | None, accepting(CAP, or_none(within(Size(1))))] = Field(
        None, title="bytes in and out after which it waits for the next month"
    )
    cap_day: int = Field(
        1, ge=1, le=31, title="when the provider counts from zero; in a shorter month its last day", description=CAP_DAY
    )

    hours: Annotated[tuple[Hours, ...], accepting(SPANS, _hours), PlainSerializer(_spans)] = Field(
        (), validate_default=False, title="when it may be used; none: always"
    )

    @model_validator(mode="after")
    def _has_what_moves(self) -> Self:
        if self.adapt and not (self.download or self.upload):
            raise ValueError(ADAPTS)
        return self

    @model_validator(mode="after")
    def _day_of_a_cap(self) -> Self:
        if "cap_day" in self.model_fields_set and self.monthly_cap is None:
            raise ValueError(CAP_DAY)
        return self

    @property
    def written(self) -> dict[str, object]:
        """The keys that say something else than when they are left out, and ``use``, as they stand in a file."""
        given = self.model_dump(include=set(LinkPolicy.model_fields), exclude_defaults=True, mode="json")
        return {"use": self.use.value, **given}

    @property
    def policy_rank(self) -> tuple[int, bool]:
        """By which links rank before their priority counts."""
        return list(Use).index(self.use), self.metered
