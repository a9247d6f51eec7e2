"""The key that signs a repository: from a file or the user's keyring. gpg(1) does the work, and shows no secret."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
_UNUSABLE = {"d": "disabled", "e": "expired", "i": "invalid", "r": "revoked"}
"""The second field of a key's line (gnupg's doc/DETAILS)."""


@dataclass(frozen=True)
class Key:
    """A secret key by the fingerprint of its primary key, in the keyring ``home``; None is the user's own."""

    fingerprint: str
    home: Path | None

    @property
    def public(self) -> str:
        """What verifies its signatures, in ASCII armour."""
        return _gpg(self.home, "--armor", "--export-options=export-minimal", "--export", self.fingerprint).decode()

    def clear_signed(self, text: bytes, seconds: int) -> bytes:
        """``text`` with its signature around it, made at ``seconds`` since 1970: an InRelease file."""
        return self._sign("--clear-sign", text, seconds)

    def detached(self, text: bytes, seconds: int) -> bytes:
        """The signature alone: a Release.gpg file."""
        return self._sign("--detach-sign", text, seconds)

    def _sign(self, how: str, text: bytes, seconds: int) -> bytes:
        # The time stands still: the same files, signed again for the same date, are the same bytes.
        options = (f"--faked-system-time={seconds}!", "--digest-algo=SHA512", "--armor")
        try:
            return _gpg(self.home, *options, f"--local-user={self.fingerprint}", how, given=text)
        except CommandError as failure:
            hint = "" if self.home is None else "; accepted in a file: a key without a passphrase"
            raise CommandError(failure.code, f"the key {self.fingerprint} does not sign: {failure}{hint}") from failure


@contextmanager
def opened(key: str, repository: Path) -> Iterator[Key]:
    """The key that ``key`` names: a file, or a fingerprint in the user's keyring. Raises CommandError (64, 65, 66, 69).

    A file's key is for that long in a keyring of its own, which only we can read.
    """
    fingerprint = key.replace(" ", "").upper()
    if _FINGERPRINT.fullmatch(fingerprint):
        yield _only_secret_key(None, key, fingerprint)
        return
    file = Path(key)
    _insist_that_it_is_private(file, repository)
    with tempfile.TemporaryDirectory(prefix="build-deb-") as folder:
        home = Path(folder)
        try:
            _gpg(home, "--import", str(file))
            yield _only_secret_key(home, key)
        finally:
            subprocess.run(["gpgconf", "--homedir", folder, "--kill", "all"], capture_output=True, check=False)


def fingerprint_of(public: Path) -> str:
    """That of the key in the file ``public``; raises CommandError (65)."""
    found = _primary(_gpg(None, "--with-colons", "--show-keys", str(public)).decode(), "pub")
    if len(found) != 1:
        raise CommandError(Exit.BAD_DATA, f"{public}: {len(found)} keys: accepted: one")
    return found[0][0]


def _only_secret_key(home: Path | None, key: str, *wanted: str) -> Key:
    """Raises CommandError (65) unless there is exactly one, and it can sign."""
    try:
        listed = _gpg(home, "--with-colons", "--list-secret-keys", *wanted).decode()
    except CommandError as failure:
        raise CommandError(Exit.NO_INPUT, f"--key {key}: no such secret key in the keyring ({failure})") from failure
    found = _primary(listed, "sec")
    if len(found) != 1:
        exported = "what gpg --armor --export-secret-keys FINGERPRINT gives"
        raise CommandError(Exit.BAD_DATA, f"--key {key}: {len(found)} secret keys in it: accepted: one, {exported}")
    fingerprint, validity = found[0]
    if validity in _UNUSABLE:
        raise CommandError(
            Exit.BAD_DATA, f"--key {key}: {fingerprint} is {_UNUSABLE[validity]}: accepted: one that can sign"
        )
    return Key(fingerprint, home)


def _primary(listed: str, kind: str) -> list[tuple[str, str]]:
    """Fingerprint and validity of each primary key; its own ``fpr`` line is the first after it."""
    found, validity = [], None
    for fields in (line.split(":") for line in listed.splitlines()):
        if fields[0] == kind:
            validity = fields[1]
        elif fields[0] == "fpr" and validity is not None:
            found.append((fields[9], validity))
            validity = None
    return found


def _insist_that_it_is_private(file: Path, repository: Path) -> None:
    try:
        mode = file.stat().st_mode
    except OSError as error:
        accepted = "accepted: a file with a secret key, or the 40 digits of a fingerprint"
        raise CommandError(Exit.NO_INPUT, f"--key {file}: {error.strerror}: {accepted}") from error
    if mode & 0o077:
        raise CommandError(Exit.USAGE, f"--key {file}: others may read it: accepted: mode 0600 (chmod 600 {file})")
    for folder in (ROOT, repository.resolve()):
        if file.resolve().is_relative_to(folder):
            raise CommandError(
                Exit.USAGE, f"--key {file}: accepted: a file outside of {folder}, so that nobody publishes it"
            )


def _gpg(home: Path | None, *arguments: str, given: bytes = b"") -> bytes:
    where = () if home is None else ("--homedir", str(home))
    command = ["gpg", "--batch", "--no-tty", *where, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    except (FileNotFoundError, PermissionError) as error:
        raise CommandError(Exit.UNAVAILABLE, "gpg is missing: install the package gnupg") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["gpg: no reason given"]
        raise CommandError(Exit.SYSTEM, "; ".join(said[-2:]))
    return done.stdout
