"""Text files from Jinja templates: an undefined name is an error, and statements leave no empty lines."""

from pathlib import Path


def rendered(template: Path, **context: object) -> str:
    """The text of the file ``template`` with ``context``, which is escaped in one of HTML.

    Raises jinja2.UndefinedError for a name that is missing.
    """
    # Not at the top: most commands of whoever has templates render none.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=".html" in template.suffixes,
    )
    return environment.get_template(template.name).render(context)
