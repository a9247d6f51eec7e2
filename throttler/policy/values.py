"""The types of a policy's values: each parses the file's text, or says what is accepted."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field

from tributary.settings.units import Duration, PositiveRate, Size, within
from tributary.settings.values import Text, accepting, as_text

NAME = "1 to 40 of the characters a-z, A-Z, 0-9, '_' and '-'"
INTERFACE = "the name of a network interface, such as 'eth0'"
NETWORKS = "a list of networks without host bits, such as ['10.64.0.0/10', 'fd00::/8']"
DSCP = "a number from 0 to 63, or one of cs0 to cs7, af11 to af43, ef, le"
QUOTA = "a size per hour, day, week or month, such as '20GB per month'"
DAYS = "a list of days out of mon, tue, wed, thu, fri, sat, sun"
SILENCE = "a time from '1s' to '604800s'"

LOWEST, HIGHEST = PositiveRate.parse("64kbit"), PositiveRate.parse("400gbit")

Network = IPv4Network | IPv6Network


def _rate_in_range(rate: PositiveRate) -> PositiveRate:
    # Below 64 kbit/s a full frame takes longer than the least retransmission time-out of Linux, 200 ms.
    if not LOWEST <= rate <= HIGHEST:
        raise ValueError(f"{PositiveRate.ACCEPTED}, from {LOWEST} to {HIGHEST}")
    return rate


def _network(value: object) -> Network:
    return value if isinstance(value, Network) else ip_network(as_text(value))


class Period(StrEnum):
    """A quota's period, by the calendar in local time."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True)
class Quota(Text):
    """A number of bytes of IP packets per period."""

    size: Size
    period: Period

    @classmethod
    def parse(cls, text: object) -> Self:
        size, separator, period = text.partition(" per ") if isinstance(text, str) else ("", "", "")
        try:
            quota = cls(Size.parse(size), Period(period))
        except ValueError as error:
            raise ValueError(QUOTA) from error
        if not separator or quota.size.amount == 0:
            raise ValueError(QUOTA)
        return quota

    def __str__(self) -> str:
        return f"{self.size} per {self.period}"


@dataclass(frozen=True)
class Dscp(Text):
    """A differentiated services code point (RFC 2474), 0 to 63."""

    code: int

    # RFC 2474 section 4.2.2, RFC 2597 section 6, RFC 3246, RFC 8622.
    NAMES: ClassVar[dict[str, int]] = {
        **{f"cs{number}": 8 * number for number in range(8)},
        **{f"af{number}{drop}": 8 * number + 2 * drop for number in range(1, 5) for drop in range(1, 4)},
        "ef": 46,
        "le": 1,
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        if isinstance(text, str) and text in cls.NAMES:
            return cls(cls.NAMES[text])
        if isinstance(text, int) and not isinstance(text, bool) and 0 <= text <= 63:
            return cls(text)
        raise ValueError(DSCP)

    def __str__(self) -> str:
        return next((name for name, code in self.NAMES.items() if code == self.code), str(self.code))


class Day(StrEnum):
    """Days of the week, in the order of datetime.weekday()."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


Days = tuple[Annotated[Day, Field(strict=False)], ...]


class SharedBy(StrEnum):
    """The owner that shares one class, on one interface and in one direction."""

    SUBFLOW = "subflow"
    SESSION = "session"
    CLIENT = "client"
    RULE = "rule"


class Direction(StrEnum):
    """Towards the client, or from it."""

    DOWNLOAD = "download"
    UPLOAD = "upload"


class Directions(StrEnum):
    """A rule's directions."""

    DOWNLOAD = "download"
    UPLOAD = "upload"
    BOTH = "both"

    @property
    def each(self) -> tuple[Direction, ...]:
        """The directions one by one."""
        return tuple(Direction) if self is Directions.BOTH else (Direction(self.value),)


class SteeringMode(StrEnum):
    """Whether running sessions are steered."""

    OFF = "off"
    DRY = "dry"
    ON = "on"


class SubflowType(StrEnum):
    """A session's first subflow, or a join."""

    INITIAL = "initial"
    JOIN = "join"


Name = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_-]{1,40}\z", description=NAME)]
# IFNAMSIZ in linux/if.h allows 15 bytes; the characters are those that tc needs no quotes for.
Interface = Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._@-]{0,14}\z", description=INTERFACE)]
RuleRate = Annotated[PositiveRate, AfterValidator(_rate_in_range)]
Silence = Annotated[Duration, accepting(SILENCE, within(Duration.parse("1s"), Duration.parse("604800s")))]
Networks = tuple[Annotated[Network, accepting(NETWORKS, _network)], ...]
