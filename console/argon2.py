"""Argon2id (RFC 9106) by libargon2 (argon2.h), in the form that argon2(1) prints. Pure but for chance."""

import base64
import ctypes
import re
import secrets
from functools import cache
from threading import Lock

from tributary.settings.errors import CommandError, Exit

_PASSES, _MEMORY, _LANES = 3, 64 << 10, 4
"""Of our own hashes: t, m in KiB, and p, RFC 9106's second recommended option (section 4). With less than 32 MiB, each
thread that hashes would keep the memory afterwards (M_MMAP_THRESHOLD of mallopt(3))."""
_SALT, _TAG = 16, 32
"""Bytes."""
_LONGEST = 128
_ONE = Lock()
"""Whoever hashes takes 64 MiB: one at a time, in whatever thread."""

_MOST_WORK = 1 << 19
"""m * t. Each of up to eight lanes is a thread."""
_NUMBER, _DIGITS = "([1-9][0-9]{0,5})", "[A-Za-z0-9+/]"
_FORM = re.compile(rf"\$argon2id\$v=19\$m={_NUMBER},t={_NUMBER},p=([1-8])\$({_DIGITS}{{11,86}})\$({_DIGITS}{{22,86}})")
_MISMATCH = -35  # ARGON2_VERIFY_MISMATCH


def is_hash(text: str) -> bool:
    """Whether it is one that libargon2 reads, and that takes no more than 64 MiB, nor too long."""
    if (found := _FORM.fullmatch(text)) is None:
        return False
    m, t, p = map(int, found.groups()[:3])
    return 8 * p <= m <= _MEMORY and m * t <= _MOST_WORK and all(map(_is_base64, found.groups()[3:]))


def _is_base64(text: str) -> bool:
    """Whether it is, as libargon2 has it: without padding, and with no bits left over."""
    padded = text + "=" * (-len(text) % 4)
    return len(text) % 4 != 1 and base64.b64encode(base64.b64decode(padded)).decode() == padded


def hashed(password: str) -> str:
    """The hash of a password; raises CommandError, exit 69, where there is no memory for it."""
    given, salt, made = password.encode(), secrets.token_bytes(_SALT), ctypes.create_string_buffer(_LONGEST)
    passed = (given, len(given), salt, len(salt), _TAG, made, len(made))
    with _ONE:
        _check(_library().argon2id_hash_encoded(_PASSES, _MEMORY, _LANES, *passed))
    return made.value.decode()


def fits(password: str, kept: str) -> bool:
    """Whether ``kept`` is a hash of it; raises CommandError, exit 69, where there is no memory to see."""
    given = password.encode()
    with _ONE:
        code = _library().argon2id_verify(kept.encode(), given, len(given))
    if code == _MISMATCH:
        return False
    _check(code)
    return True


def _check(code: int) -> None:
    if code != 0:
        raise CommandError(Exit.UNAVAILABLE, f"Argon2: {_library().argon2_error_message(code).decode()}")


@cache
def _library() -> ctypes.CDLL:
    """Not at the top: who reads settings needs none."""
    try:
        found = ctypes.CDLL("libargon2.so.1")
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, "libargon2.so.1 is missing: install the package libargon2-1") from error
    number, size, text = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_char_p
    found.argon2id_hash_encoded.argtypes = (number, number, number, text, size, text, size, size, text, size)
    found.argon2id_verify.argtypes = (text, text, size)
    found.argon2_error_message.argtypes, found.argon2_error_message.restype = (ctypes.c_int,), text
    return found
