"""The code without which the first-start page does nothing: who knows it has the box's screen or its card."""

import hmac
import secrets
from pathlib import Path

PLACE = Path("var/lib/tributary/firstboot/code")

_SIGNS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that look alike."""
_LENGTH = 8
"""Signs: 2^39 codes, years of work for who tries a thousand a second."""


def fresh() -> str:
    """One that nobody has had."""
    return "".join(secrets.choice(_SIGNS) for _ in range(_LENGTH))


def kept(root: Path) -> str:
    """The one of the system below ``root``, or a fresh one."""
    try:
        return (root / PLACE).read_text().strip()
    except OSError:
        return fresh()


def shown(code: str) -> str:
    """In groups of four, as people copy it."""
    return "-".join(code[start : start + 4] for start in range(0, len(code), 4))


def fits(given: str, code: str) -> bool:
    """Whether ``given`` is the code, however it was grouped, in a time that says nothing of it."""
    plain = "".join(given.lower().split()).replace("-", "")
    return bool(code) and hmac.compare_digest(plain.encode(), code.encode())
