"""Manual pages: Markdown in, man(7) out. Pure.

A page begins with its name, its section, and what it is about: ``# tributary(8): shows what runs``. Code is bold,
emphasis italic. What stands before the first colon of an item is its tag.
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

_CODE = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti"})
_FONTS = {"em_open": "\\fI", "em_close": "\\fR", "softbreak": "\n"}
_HEADINGS = {"h2": ".SH", "h3": ".SS"}


def manual(markdown: str, date: str) -> str:
    """The page of this ``date`` as groff reads it (groff_man(7))."""
    title, *rest = MarkdownIt("commonmark").parse(markdown)[1:]
    called, _, about = title.content.partition(": ")
    name, section = called.rstrip(")").split("(")
    head = (f'.TH {name.upper()} {section} "{date}" Tributary', ".SH NAME", f"{name} \\- {about}")
    return "\n".join((*head, *_lines(rest))) + "\n"


def _lines(tokens: Sequence[Token]) -> Iterator[str]:
    for place, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                text = tokens[place + 1].content
                yield f"{_HEADINGS[token.tag]} {text.upper() if token.tag == 'h2' else text}"
            case "paragraph_open":
                text = _text(tokens[place + 1].children or ())
                # The tag, and what it is about.
                is_item = tokens[place - 1].type == "list_item_open"
                yield from (".TP", *re.split(r":\s", text, maxsplit=1)) if is_item else (".PP", text)
            case "code_block":
                code = _safe(token.content.rstrip("\n").translate(_CODE))
                # groff complains of an empty line.
                yield from (".PP", ".RS 4", ".nf", re.sub("^$", ".sp", code, flags=re.MULTILINE), ".fi", ".RE")
            case "bullet_list_open" if token.level:
                yield ".RS"
            case "bullet_list_close" if token.level:
                yield ".RE"


def _text(inline: Sequence[Token]) -> str:
    return _safe("".join(map(_span, inline)))


def _span(token: Token) -> str:
    match token.type:
        case "code_inline":
            return f"\\fB{token.content.translate(_CODE)}\\fR"
        case "text":
            return re.sub(r"([\w.-]+)(\(\d\))", r"\\fB\1\\fR\2", token.content.replace("\\", "\\e"))
    return _FONTS[token.type]


def _safe(text: str) -> str:
    """Where a line begins with a control character, one that is none comes before it."""
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)
