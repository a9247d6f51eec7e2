"""The card's file: bytes in, a checked Card out, or every line that says what is wrong with it. Pure."""

import tomllib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from image.firstboot.contradictions import contradictions
from image.firstboot.settings import Card, Role
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import explained

NAME = "tributary.toml"

_CURLY = "\u201c\u201d\u201e\u2018\u2019"


class Wrong(CommandError):
    """A file that is not accepted: one line for each reason."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__(Exit.USAGE, "\n".join(lines))
        self.lines = lines


def read(content: bytes, image_role: Role, where: str = NAME) -> Card:
    """The card's settings, complete and without contradictions; raises Wrong with all that is the matter.

    ``image_role`` holds where the file says nothing of a role, ``where`` is the file's name in messages.
    """
    card = _checked(_parsed(content, where), where)
    found = contradictions(card, card.role or image_role)
    lines = tuple(str(invalid_value(where, key, value, accepted)) for key, value, accepted in found)
    if lines:
        raise Wrong(lines)
    return card


def _parsed(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        # Editors of Windows put a byte order mark in front of UTF-8.
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Wrong((f"{where}: not text in UTF-8 at byte {error.start}: save it as UTF-8",)) from error
    except (ValueError, RecursionError) as error:  # the parser's own, and for a number or a nesting beyond bounds
        raise Wrong((f"{where}: not valid TOML: {error}{_hint(content.decode('utf-8-sig'))}",)) from error


def _hint(text: str) -> str:
    written = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    curly = next((sign for sign in _CURLY if sign in written), None)
    return f': it has a {curly}: quotes must be straight ones, "' if curly else ""


def _checked(document: Mapping[str, Any], where: str) -> Card:
    try:
        return Card.model_validate(document)
    except ValidationError as error:
        found = [str(explained(each, Card, where)) for each in error.errors()]
        raise Wrong(tuple(dict.fromkeys(found))) from error
