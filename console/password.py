"""The hash of a password: Argon2id, or as crypt(5) writes that of scrypt (RFC 7914). Pure but for chance."""

import hashlib
import hmac
import re

from console import argon2

SHORTEST = 10
"""Signs of a password."""
HASH = "a hash of up to 64 MiB: $argon2id$, or $7$ as `mkpasswd --method=scrypt` prints it; never a password"

_MOST_MEMORY, _MOST_WORK = 65 << 20, 1 << 20
"""Bytes, of which one MiB is for p blocks; N * r * p, of which mkpasswd's own choice is half."""
_DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(r"\$7\$(D)(D{5})(D{5})D{0,86}\$D{43}".replace("D", "[./0-9A-Za-z]"))


def checked(document: object) -> str:
    """``document`` itself; raises TypeError or ValueError if it is no such hash, or one that takes too much."""
    if not isinstance(document, str):
        raise TypeError(HASH)
    if not argon2.is_hash(document) and not _is_scrypt(document):
        raise ValueError(HASH)
    return document


def _is_scrypt(text: str) -> bool:
    if (found := _FORM.fullmatch(text)) is None:
        return False
    n, r, p = map(_number, found.groups())
    memory = ((128 * r) << n) + 128 * r * p
    # N < 2^(128 * r / 8): RFC 7914 section 2.
    return 0 < n < 16 * r and 0 < (r * p) << n <= _MOST_WORK and memory <= _MOST_MEMORY


def hashed(password: str) -> str:
    """What is kept of a password; raises CommandError, exit 69, where there is no memory for it."""
    return argon2.hashed(password)


def fits(password: str, kept: str) -> bool:
    """Whether it is the one of which ``kept`` was kept; takes some tenths of a second. Raises CommandError, exit 69."""
    return _fits_scrypt(password, kept) if _is_scrypt(kept) else argon2.fits(password, kept)


def _fits_scrypt(password: str, kept: str) -> bool:
    setting = kept.rpartition("$")[0]
    n, r, p = _number(setting[3]), _number(setting[4:9]), _number(setting[9:14])
    salt, room = setting[14:].encode(), 2 * _MOST_MEMORY  # OpenSSL asks for a little more than 128 * N * r bytes
    made = hashlib.scrypt(password.encode(), salt=salt, n=1 << n, r=r, p=p, maxmem=room, dklen=32)
    return hmac.compare_digest(f"{setting}${_text(made)}", kept)


def _number(digits: str) -> int:
    """Six bits a digit, the lowest first."""
    return sum(_DIGITS.index(digit) << 6 * place for place, digit in enumerate(digits))


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 6 * place & 63] for place in range(count))


def _text(data: bytes) -> str:
    """Three bytes in four digits."""
    groups = (data[start : start + 3] for start in range(0, len(data), 3))
    return "".join(_digits(int.from_bytes(group, "little"), len(group) + 1) for group in groups)
