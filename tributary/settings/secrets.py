"""Hides passwords and keys from messages and logs. Pure."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(not shown)"
_WORDS = ("(missing)", "(given)")
"""Placeholders for a value."""

_NAME = re.compile(r"(?<!by)pas|psk|phrase|secret|\bpin|\bpwd?\b")
"""In names of keys, also of misspelt ones such as pasphrase. A bypass is none."""

_KEY = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,48}={0,2}(?![A-Za-z0-9+/=])")
"""About as long as 32 bytes in base64 (wg(8)): a mistyped or misplaced key."""

_LONGEST = 80


def is_secret(key: str) -> bool:
    """Whether a key of this name holds a secret, by its name."""
    return _NAME.search(key.lower()) is not None


def without_secrets(key: str, value: Any) -> Any:
    """The ``value`` of ``key`` for a message: shortened, without secrets, nor those in a table."""
    if value is None or (isinstance(value, str) and value in _WORDS):
        return value
    if is_secret(key):
        return HIDDEN
    shown = _inside(value)
    text = shown if isinstance(shown, str) else str(shown)
    return text[:_LONGEST] + "..." if len(text) > _LONGEST else shown


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: HIDDEN if is_secret(str(key)) else _inside(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_inside, value))
    if not isinstance(value, str):
        return value
    if "PRIVATE KEY" in value:
        return "(a private key, which belongs nowhere but to its owner)"
    return HIDDEN if _KEY.search(value) else value
