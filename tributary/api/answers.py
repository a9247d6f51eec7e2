"""What a daemon answered, as a document."""

from typing import TypeVar

from pydantic import ValidationError

from tributary.api.documents import Document
from tributary.daemons.control import Control, Silent

D = TypeVar("D", bound=Document)


def decoded(kind: type[D], answer: object, asked: Control) -> D:
    """What the daemon that was ``asked`` says, or a part of it; raises Silent if it is of another version.

    Members that this version does not know are ignored.
    """
    try:
        return kind.model_validate(answer, extra="ignore")
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        line = f"the {asked.daemon} does not answer in words of this version: restart it"
        raise Silent(f"{line} ({where})" if where else line) from error
