"""What kinds of values in settings files are made of: readers that raise, and the one message that a user gets."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import PlainValidator

T = TypeVar("T")


def accepting(accepted: str, read: Callable[[object], T]) -> PlainValidator:
    """A type's validator that gives what ``read`` gives; if that raises, it says what is ``accepted`` instead."""

    def check(value: object) -> T:
        try:
            return read(value)
        except (ValueError, TypeError) as error:
            raise ValueError(accepted) from error

    return PlainValidator(check)


def or_none(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """``read`` for a key that may be left out: its default is None, which TOML cannot say."""
    return lambda value: None if value is None else read(value)


def as_text(value: object) -> str:
    """``value`` as it is; raises TypeError if it is no text."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def require(met: bool) -> None:
    """Raise ValueError unless ``met``."""
    if not met:
        raise ValueError
