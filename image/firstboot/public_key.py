"""OpenSSH public keys: a line of an authorized_keys file, checked as far as it can be without OpenSSH. Pure."""

import base64
import binascii
from collections.abc import Iterator

# How many strings follow the type, by RFC 4253 section 6.6, RFC 5656 section 3.1, RFC 8709 section 4, and PROTOCOL.u2f
# of OpenSSH. ssh-dss is not here: OpenSSH 10 has left it out.
_STRINGS = {
    "ssh-ed25519": 1,
    "ssh-rsa": 2,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519@openssh.com": 2,
    "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}

ACCEPTED = (
    "whole OpenSSH public keys, each the one line of a file such as ~/.ssh/id_ed25519.pub: ssh-ed25519, ssh-rsa,"
    " ecdsa-sha2-nistp256 to 521, or one on a token (sk-)"
)


def checked(value: object) -> str:
    """``value`` as one line for authorized_keys; raises ValueError if it is no such key.

    Options before the type are refused. A key that was cut off is found out, since its strings do not end with it.
    """
    if not isinstance(value, str) or not value.strip().isprintable():
        raise ValueError(ACCEPTED)
    words = value.strip().split(" ", maxsplit=2)
    if len(words) < 2 or words[0] not in _STRINGS or not _fits(words[0], words[1]):
        raise ValueError(ACCEPTED)
    return " ".join(words)


def is_key(value: object) -> bool:
    """Whether ``value`` is one."""
    try:
        checked(value)
    except ValueError:
        return False
    return True


def _fits(kind: str, text: str) -> bool:
    try:
        first, *rest = _strings(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
    return first == kind.encode() and len(rest) == _STRINGS[kind] and all(rest)


def _strings(blob: bytes) -> Iterator[bytes]:
    """The strings in ``blob``, each after its length in four bytes (RFC 4251 section 5); ValueError if one is short."""
    while blob:
        length = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + length:
            raise ValueError
        yield blob[4 : 4 + length]
        blob = blob[4 + length :]
