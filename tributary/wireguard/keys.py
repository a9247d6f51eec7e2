"""WireGuard's keys in the form of wg(8): 32 bytes in base64. All private keys of a router come from one secret.

WireGuard identifies a peer by its public key, and sends to the address of the peer's last packet. So each tunnel of a
router needs its own key pair; and a person who copies an enrolment should copy only one line.
"""

import base64
import binascii
import hashlib
import hmac
import os
from typing import Annotated

from tributary.kernel.process import run
from tributary.settings.errors import CommandError, Exit
from tributary.settings.values import accepting, as_text, require

KEY = "32 bytes in base64, as `wg genkey` prints them: 43 of A-Z, a-z, 0-9, + and /, and one ="

_BYTES = 32


def _read(value: object) -> str:
    text = as_text(value)
    try:
        require(len(base64.b64decode(text, validate=True)) == _BYTES)
    except binascii.Error as error:
        raise ValueError from error
    return text


Key = Annotated[str, accepting(KEY, _read)]


def is_key(text: str) -> bool:
    """Whether it has the form of a key."""
    try:
        _read(text)
    except ValueError:
        return False
    return True


def new_secret() -> str:
    """A router's secret, fresh."""
    return base64.b64encode(os.urandom(_BYTES)).decode()


def private_key(secret: str, place: int) -> str:
    """The private key of the tunnel at ``place``: HKDF-SHA256 of the secret (RFC 5869), one block, no salt.

    X25519 takes any 32 bytes as a private key (RFC 7748 section 5).
    """
    extracted = hmac.digest(bytes(_BYTES), base64.b64decode(secret), hashlib.sha256)
    expanded = hmac.digest(extracted, f"tributary tunnel {place}".encode() + b"\1", hashlib.sha256)
    return base64.b64encode(expanded).decode()


def public_key(private: str) -> str:
    """What belongs to ``private``, by wg(8); raises CommandError, exit 69 or 71."""
    done = run(["wg", "pubkey"], private)
    if done.returncode:
        raise CommandError(Exit.SYSTEM, f"wg pubkey: {done.stderr.strip()}")
    return done.stdout.strip()
