"""Building blocks for types of settings: parsers that raise, and the one message for the user.

A command line has such types, too: pydantic is loaded where settings are.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

T = TypeVar("T")


class Text:
    """A value that is text in the file: ``parse`` reads it or raises ValueError with what is accepted."""

    @classmethod
    def parse(cls, text: object) -> Self:
        raise NotImplementedError

    @classmethod
    def _read(cls, value: object) -> Self:
        return value if isinstance(value, cls) else cls.parse(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._read, serialization=core_schema.to_string_ser_schema())


@dataclass(frozen=True)
class Accepting:
    """A validator that knows what it accepts: the description of a key whose type has it, unless that has another."""

    accepted: str
    read: Callable[[object], Any]

    def _checked(self, value: object) -> Any:
        try:
            return self.read(value)
        except (ValueError, TypeError) as error:
            raise ValueError(self.accepted) from error

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> "CoreSchema":
        from pydantic import PlainValidator

        return PlainValidator(self._checked).__get_pydantic_core_schema__(source, handler)


def accepting(accepted: str, read: Callable[[object], T]) -> Accepting:
    """A validator that returns what ``read`` returns; if that raises, the error says what is ``accepted``."""
    return Accepting(accepted, read)


def matching(pattern: str, accepted: str) -> Accepting:
    """Text that ``pattern`` fits as a whole, or None; else a refusal that says what is ``accepted``."""

    def read(value: object) -> str:
        text = as_text(value)
        require(re.fullmatch(pattern, text, re.ASCII) is not None)
        return text

    return accepting(accepted, or_none(read))


def or_none(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """``read`` for an optional key: its default is None, which TOML cannot express."""
    return lambda value: None if value is None else read(value)


def reading(
    kind: type[T], parse: Callable[[str], T], fits: Callable[[T], bool] = lambda _: True
) -> Callable[[object], T]:
    """A reader of text by ``parse`` that refuses what does not fit; what is of that ``kind`` already stays as it is."""

    def read(value: object) -> T:
        found = value if isinstance(value, kind) else parse(as_text(value))
        require(fits(found))
        return found

    return read


def as_text(value: object) -> str:
    """``value`` itself; raises TypeError if it is no text."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def require(met: bool) -> None:
    """Raise ValueError unless ``met``."""
    if not met:
        raise ValueError
