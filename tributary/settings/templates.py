"""Text files from Jinja templates: a name that is not given is an error, and a statement leaves no empty line."""

from pathlib import Path

import jinja2


def rendered(template: Path, **context: object) -> str:
    """The text of the file ``template`` with ``context``; raises jinja2.UndefinedError for a name that is missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template.name).render(context)
