"""Spans of the day in local time, and time zones."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tributary.settings.files import AS_TEXT
from tributary.settings.values import Text, accepting, as_text, or_none

HOURS = "a span of local time, such as '18:00-23:00' or '22:00-06:00'"
TIME_ZONE = "a time zone's name, such as 'Europe/Berlin', as `timedatectl list-timezones` shows them"


def _time_zone(value: object) -> ZoneInfo:
    try:
        return value if isinstance(value, ZoneInfo) else ZoneInfo(as_text(value))
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError from error


TimeZone = Annotated[ZoneInfo | None, accepting(TIME_ZONE, or_none(_time_zone)), AS_TEXT]


@dataclass(frozen=True)
class Hours(Text):
    """A span of the day in minutes since midnight, local time; it may pass midnight. The end is excluded."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: object) -> Self:
        match = re.fullmatch(r"(\d\d):(\d\d)-(\d\d):(\d\d)", text, re.ASCII) if isinstance(text, str) else None
        numbers = [int(number) for number in match.groups()] if match else []
        if not numbers or max(numbers[::2]) > 23 or max(numbers[1::2]) > 59 or numbers[:2] == numbers[2:]:
            raise ValueError(HOURS)
        return cls(60 * numbers[0] + numbers[1], 60 * numbers[2] + numbers[3])

    def __str__(self) -> str:
        return f"{clock(self.start)}-{clock(self.end)}"

    def days_ago(self, now: datetime) -> int | None:
        """How many days ago the span around ``now`` began: 0 or, past midnight, 1; None outside of it."""
        minute = minute_of(now)
        if self.start < self.end:
            return 0 if self.start <= minute < self.end else None
        return 0 if minute >= self.start else 1 if minute < self.end else None


def minute_of(now: datetime) -> int:
    """Minutes since midnight."""
    return 60 * now.hour + now.minute


def clock(minute: int) -> str:
    """Minutes since midnight as on a clock, '06:00'."""
    return f"{minute // 60:02}:{minute % 60:02}"
