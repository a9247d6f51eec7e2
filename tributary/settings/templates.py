"""Text files from Jinja templates: an undefined name is an error, and statements leave no empty lines."""

from collections.abc import Mapping
from pathlib import Path


def rendered(template: Path, **context: object) -> str:
    """The text of the file ``template`` with ``context``; raises jinja2.UndefinedError for a name that is missing."""
    return _rendered(template, context, escapes=False)


def rendered_html(template: Path, **context: object) -> str:
    """The same as HTML, with escaped values."""
    return _rendered(template, context, escapes=True)


def _rendered(template: Path, context: Mapping[str, object], *, escapes: bool) -> str:
    # Not at the top: most commands of whoever has templates render none.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=escapes,
    )
    return environment.get_template(template.name).render(context)
