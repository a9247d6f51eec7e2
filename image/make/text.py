"""A file of an image, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """Its absolute path, what is in it, and its mode."""

    path: str
    content: str
    mode: int = 0o644
