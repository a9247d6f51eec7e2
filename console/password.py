"""The hash of a password, as crypt(5) writes that of scrypt (RFC 7914). Pure but for chance."""

import hashlib
import hmac
import re
import secrets

SHORTEST = 10
"""Signs of a password."""
HASH = "a hash of up to 64 MiB as `mkpasswd --method=scrypt` prints it, beginning with $7$; never a password"

_BITS, _BLOCKS, _TIMES = 14, 8, 5
"""Of our own hashes: N = 2^14, r and p, as OWASP's cheat sheet on password storage has them for 16 MiB."""
_MOST_MEMORY, _MOST_WORK = 65 << 20, 1 << 20
"""Bytes, of which one MiB is for p blocks; N * r * p, of which mkpasswd's own choice is half."""
_DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(r"\$7\$(D)(D{5})(D{5})D{0,86}\$D{43}".replace("D", "[./0-9A-Za-z]"))


def checked(document: object) -> str:
    """``document`` itself; raises TypeError or ValueError if it is no such hash, or one that takes too much."""
    if not isinstance(document, str):
        raise TypeError(HASH)
    if (found := _FORM.fullmatch(document)) is None:
        raise ValueError(HASH)
    n, r, p = map(_number, found.groups())
    memory = ((128 * r) << n) + 128 * r * p
    # N < 2^(128 * r / 8): RFC 7914 section 2.
    if not 0 < n < 16 * r or not 0 < (r * p) << n <= _MOST_WORK or memory > _MOST_MEMORY:
        raise ValueError(HASH)
    return document


def hashed(password: str) -> str:
    """What is kept of a password."""
    salt = _text(secrets.token_bytes(16))
    return _hashed(password, f"$7${_DIGITS[_BITS]}{_digits(_BLOCKS, 5)}{_digits(_TIMES, 5)}{salt}")


def fits(password: str, kept: str) -> bool:
    """Whether it is the one of which ``kept`` was kept; takes a tenth of a second."""
    return hmac.compare_digest(_hashed(password, kept.rpartition("$")[0]), kept)


def _hashed(password: str, setting: str) -> str:
    n, r, p = _number(setting[3]), _number(setting[4:9]), _number(setting[9:14])
    salt, room = setting[14:].encode(), 2 * _MOST_MEMORY  # OpenSSL asks for a little more than 128 * N * r bytes
    made = hashlib.scrypt(password.encode(), salt=salt, n=1 << n, r=r, p=p, maxmem=room, dklen=32)
    return f"{setting}${_text(made)}"


def _number(digits: str) -> int:
    """Six bits a digit, the lowest first."""
    return sum(_DIGITS.index(digit) << 6 * place for place, digit in enumerate(digits))


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 6 * place & 63] for place in range(count))


def _text(data: bytes) -> str:
    """Three bytes in four digits."""
    groups = (data[start : start + 3] for start in range(0, len(data), 3))
    return "".join(_digits(int.from_bytes(group, "little"), len(group) + 1) for group in groups)
