"""Text files from Jinja templates: an undefined name is an error, and statements leave no empty lines."""

from functools import cache
from pathlib import Path
from typing import Any


def rendered(template: Path, **context: object) -> str:
    """The text of the file ``template`` with ``context``, which is escaped in one of HTML.

    Raises jinja2.UndefinedError for a name that is missing.
    """
    text: str = _environment(template.parent, ".html" in template.suffixes).get_template(template.name).render(context)
    return text


@cache
def _environment(folder: Path, escapes: bool) -> Any:
    """It keeps what it has compiled: a page that is shown again and again is not compiled each time."""
    # Not at the top: most commands of whoever has templates render none.
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=escapes,
    )
