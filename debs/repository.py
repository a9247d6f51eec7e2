"""A signed apt repository: a folder that any web server can publish (apt-secure(8)).

apt-ftparchive(1) writes its indexes and gpg(1) signs them, anew each time, from what is in its pool and what comes to
it. Not reprepro(1): its signatures have the time of day, so that the same packages would give other bytes.
"""

import filecmp
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from debs.release import ARCHITECTURES, SUITES
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit, refused

KEY, SOURCES = "key.asc", "tributary.sources"

_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
# What apt of Debian 12 and newer no longer trusts is left out.
_CHECKSUMS = ("-o=APT::FTPArchive::MD5=false", "-o=APT::FTPArchive::SHA1=false")


@dataclass(frozen=True)
class Deb:
    """A package's file, and what it says of itself."""

    file: Path
    name: str
    version: str
    architecture: str

    @property
    def suite(self) -> str:
        """By the end of its version, such as ~deb12; raises CommandError (65) if that names no release that we know."""
        for suite in SUITES.values():
            if self.version.endswith(f"~{suite.mark}"):
                return suite.name
        marks = ", ".join(f"~{suite.mark}" for suite in SUITES.values())
        raise CommandError(Exit.BAD_DATA, f"{self.file}: version {self.version}: accepted: one that ends in {marks}")

    @property
    def place(self) -> str:
        """Its path in a repository. A file's name leaves the version's epoch out (deb-version(7))."""
        version = self.version.rpartition(":")[2]
        return f"pool/{self.suite}/{self.name}_{version}_{self.architecture}.deb"


@dataclass(frozen=True)
class Order:
    """A repository in ``folder``, signed by ``key``, a file or a fingerprint, which machines reach by ``url``.

    ``valid_for`` days after ``date`` machines no longer take it; None is for ever.
    """

    folder: Path
    key: str
    url: str
    date: datetime
    valid_for: int | None = None
    replace_key: bool = False

    @property
    def until(self) -> datetime | None:
        return None if self.valid_for is None else self.date + timedelta(days=self.valid_for)


@dataclass(frozen=True)
class _Key:
    """A secret key by its fingerprint, in the keyring ``home``; None is the user's own. gpg shows no secret."""

    fingerprint: str
    home: Path | None

    @property
    def public(self) -> str:
        return _gpg(self.home, "--armor", "--export-options=export-minimal", "--export", self.fingerprint).decode()

    def sign(self, how: str, text: bytes, date: datetime) -> bytes:
        # The time stands still: the same files, signed again for the same date, are the same bytes.
        time = f"--faked-system-time={int(date.timestamp())}!"
        given = ("--digest-algo=SHA512", "--armor", f"--local-user={self.fingerprint}", how)
        try:
            return _gpg(self.home, time, *given, given=text)
        except CommandError as failure:
            hint = "" if self.home is None else "; accepted in a file: a key without a passphrase"
            message = f"the key {self.fingerprint} does not sign: {failure}{hint}"
            raise CommandError(Exit.BAD_DATA, message) from failure


def below(folder: Path) -> list[Deb]:
    """All packages in ``folder`` and its folders, in order; raises CommandError (65, 66)."""
    found = [read(path) for path in sorted(folder.rglob("*.deb"))]
    if not found:
        raise CommandError(Exit.NO_INPUT, f"{folder}: no packages there: accepted: a folder with .deb files")
    return found


def read(path: Path) -> Deb:
    """A package by its file; raises CommandError (65) if it is none."""
    command = ["dpkg-deb", "--showformat=${Package}\n${Version}\n${Architecture}\n", "--show", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(Exit.BAD_DATA, f"{path}: no package: {done.stderr.strip()}")
    return Deb(path, *done.stdout.splitlines())


def check(order: Order) -> str:
    """The fingerprint of the key that would sign; raises CommandError (64, 65, 66, 69) if it must not, or cannot."""
    with _signer(order) as signer:
        return signer.fingerprint


def plan(order: Order, debs: Sequence[Deb]) -> dict[str, object]:
    """What ``publish`` would do, without doing any of it."""
    return {
        "repository": str(order.folder),
        "key": check(order),
        "url": order.url,
        "date": f"{order.date:%Y-%m-%d %H:%M:%S} UTC",
        "valid until": f"{order.until:%Y-%m-%d %H:%M:%S} UTC" if order.until else "for ever",
        "new": [deb.place for deb in _arrivals(debs, order.folder)],
        "there": [str(path.relative_to(order.folder)) for path in sorted(order.folder.glob("pool/*/*.deb"))],
    }


def publish(order: Order, debs: Sequence[Deb]) -> list[Path]:
    """Add ``debs``, write and sign all indexes; returns what a machine of each suite needs. Raises CommandError.

    Whoever reads meanwhile finds the indexes of before or those of now, signatures and all.
    """
    with refused(Exit.SYSTEM, order.folder, "cannot be written"), _signer(order) as signer:
        new = _arrivals(debs, order.folder)
        order.folder.mkdir(parents=True, exist_ok=True)
        (order.folder / KEY).write_text(signer.public)  # first: by it a run that ended early knows the folder again
        for deb in new:
            copy_whole(deb.file, order.folder / deb.place)
        return _write(order, signer)


def _arrivals(debs: Iterable[Deb], repository: Path) -> list[Deb]:
    """Those of ``debs`` that the repository does not have yet; raises CommandError (65).

    A version that was published never changes: apt has its checksum, and machines may have it installed.
    """
    new: dict[str, Deb] = {}
    for deb in debs:
        there = new[deb.place].file if deb.place in new else repository / deb.place
        if not there.exists():
            new[deb.place] = deb
        elif not filecmp.cmp(deb.file, there, shallow=False):
            raise CommandError(
                Exit.BAD_DATA, f"{deb.file}: {there} is the same version with other bytes: make a newer one"
            )
    return list(new.values())


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file, in a folder that need not be there; nobody sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    try:
        shutil.copyfile(source, partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _write(order: Order, signer: _Key) -> list[Path]:
    """All of ``dists``, which takes the place of the one before when it is whole."""
    with tempfile.TemporaryDirectory(dir=order.folder, prefix=".build-deb-") as work:
        dists = Path(work, "dists")
        suites = [suite for suite in SUITES if any(order.folder.glob(f"pool/{suite}/*.deb"))]
        for suite in suites:
            _write_suite(order, suite, dists / suite, signer)
        if (order.folder / "dists").exists():
            (order.folder / "dists").rename(Path(work, "before"))
        dists.rename(order.folder / "dists")
    return [order.folder / "dists" / suite / SOURCES for suite in suites]


def _write_suite(order: Order, suite: str, folder: Path, signer: _Key) -> None:
    debs = [read(path) for path in order.folder.glob(f"pool/{suite}/*.deb")]
    # Packages that run on all processors are for each that we know.
    architectures = sorted({deb.architecture for deb in debs} - {"all"}) or sorted(ARCHITECTURES)
    for architecture in architectures:
        index = _ftparchive(order.folder, f"--arch={architecture}", "packages", f"pool/{suite}")
        place = folder / f"main/binary-{architecture}"
        place.mkdir(parents=True)
        (place / "Packages").write_bytes(index)
        (place / "Packages.xz").write_bytes(lzma.compress(index))
    options = (f"-o=APT::FTPArchive::Release::{each}" for each in _release_fields(suite, architectures, order))
    release = _ftparchive(folder, *options, "release", ".")
    (folder / "Release").write_bytes(release)
    (folder / "Release.gpg").write_bytes(signer.sign("--detach-sign", release, order.date))
    (folder / "InRelease").write_bytes(signer.sign("--clear-sign", release, order.date))
    (folder / SOURCES).write_text(_sources(suite, order.url, signer.public))


def _release_fields(suite: str, architectures: Sequence[str], order: Order) -> Iterator[str]:
    """As https://wiki.debian.org/DebianRepository/Format names them; times are UTC."""
    fields: Mapping[str, str] = {"Origin": "Tributary", "Label": "Tributary", "Suite": suite, "Codename": suite}
    yield from (f"{name}={value}" for name, value in fields.items())
    yield f"Date={_time(order.date)}"
    yield f"Architectures={' '.join(architectures)}"
    yield "Components=main"
    yield "Description=Tributary, a gateway for Multipath TCP"
    if order.until:
        # Valid-Until is written only beside a ValidTime, the seconds from now on, whose place it then takes.
        yield from ("ValidTime=1", f"Valid-Until={_time(order.until)}")


def _time(date: datetime) -> str:
    return f"{date:%a, %d %b %Y %H:%M:%S} UTC"


def _sources(suite: str, url: str, key: str) -> str:
    """A file for /etc/apt/sources.list.d (deb822-style, sources.list(5)): this key, and for this repository alone."""
    armour = "".join(f" {line or '.'}\n" for line in key.strip().splitlines())
    return f"Types: deb\nURIs: {url}\nSuites: {suite}\nComponents: main\nSigned-By:\n{armour}"


@contextmanager
def _signer(order: Order) -> Iterator[_Key]:
    """The key, which was found to sign; a file's key is for that long in a keyring of its own, which only we can
    read."""
    fingerprint = order.key.replace(" ", "").upper()
    if _FINGERPRINT.fullmatch(fingerprint):
        yield _checked(order, _only_secret_key(None, order.key, fingerprint))
        return
    file = Path(order.key)
    _require_private(file, order.folder)
    with tempfile.TemporaryDirectory(prefix="build-deb-") as folder:
        try:
            _gpg(Path(folder), "--import", str(file))
            yield _checked(order, _only_secret_key(Path(folder), order.key))
        finally:
            subprocess.run(["gpgconf", "--homedir", folder, "--kill", "all"], capture_output=True, check=False)


def _checked(order: Order, signer: _Key) -> _Key:
    """Machines trust the key that they were given: with another one, none of them takes the repository any more."""
    known = order.folder / KEY
    if known.exists():
        before = _primary(_gpg(None, "--with-colons", "--show-keys", str(known)), "pub")
        if before != [signer.fingerprint] and not order.replace_key:
            raise CommandError(
                Exit.USAGE,
                f"{order.folder} is signed by {', '.join(before)}, not by {signer.fingerprint}: machines that use it"
                " would refuse it; accepted: its key, or --replace-key",
            )
    elif order.folder.is_dir() and any(order.folder.iterdir()):
        accepted = "accepted: a new or empty folder, or a repository made by build-deb"
        raise CommandError(Exit.USAGE, f"{order.folder}: {accepted}")
    signer.sign("--detach-sign", b"", order.date)  # that it can: before anything is built or written
    return signer


def _only_secret_key(home: Path | None, key: str, *wanted: str) -> _Key:
    try:
        found = _primary(_gpg(home, "--with-colons", "--list-secret-keys", *wanted), "sec")
    except CommandError as failure:
        raise CommandError(Exit.NO_INPUT, f"--key {key}: no such secret key in the keyring ({failure})") from failure
    if len(found) != 1:
        exported = "what gpg --armor --export-secret-keys FINGERPRINT gives"
        raise CommandError(Exit.BAD_DATA, f"--key {key}: {len(found)} secret keys in it: accepted: one, {exported}")
    return _Key(found[0], home)


def _primary(listed: bytes, kind: str) -> list[str]:
    """The fingerprint of each primary key: its line ``fpr`` is the first after it (gnupg's doc/DETAILS)."""
    return re.findall(rf"^{kind}:.*\n(?:(?!{kind}:|fpr:).*\n)*fpr:(?:[^:]*:){{8}}([0-9A-F]+)", listed.decode(), re.M)


def _require_private(file: Path, repository: Path) -> None:
    try:
        mode = file.stat().st_mode
    except OSError as error:
        accepted = "accepted: a file with a secret key, or the 40 digits of a fingerprint"
        raise CommandError(Exit.NO_INPUT, f"--key {file}: {error.strerror}: {accepted}") from error
    if mode & 0o077:
        raise CommandError(Exit.USAGE, f"--key {file}: others may read it: accepted: mode 0600 (chmod 600 {file})")
    for folder in (ROOT, repository.resolve()):
        if file.resolve().is_relative_to(folder):
            accepted = f"accepted: a file outside of {folder}, so that nobody publishes it"
            raise CommandError(Exit.USAGE, f"--key {file}: {accepted}")


def _ftparchive(folder: Path, *arguments: str) -> bytes:
    return _run(["apt-ftparchive", "-qq", *_CHECKSUMS, *arguments], "apt-utils", folder)


def _gpg(home: Path | None, *arguments: str, given: bytes = b"") -> bytes:
    where = () if home is None else ("--homedir", str(home))
    return _run(["gpg", "--batch", "--no-tty", *where, *arguments], "gnupg", given=given)


def _run(command: Sequence[str], package: str, folder: Path | None = None, given: bytes = b"") -> bytes:
    environment = os.environ | {"LC_ALL": "C"}
    try:
        done = subprocess.run(command, cwd=folder, input=given, capture_output=True, check=False, env=environment)
    except (FileNotFoundError, PermissionError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"{command[0]} is missing: install the package {package}") from error
    if done.returncode != 0:
        errors = done.stderr.decode(errors="replace").strip().splitlines() or [f"{command[0]}: no reason given"]
        raise CommandError(Exit.SYSTEM, "; ".join(errors[-2:]))
    return done.stdout


def now(environment: Mapping[str, str]) -> datetime:
    """The date of what is signed: SOURCE_DATE_EPOCH, or the clock's; raises CommandError (64)."""
    given = environment.get("SOURCE_DATE_EPOCH")
    if given is None:
        return datetime.now(UTC).replace(microsecond=0)
    if not (given.isascii() and given.isdigit()):
        raise CommandError(Exit.USAGE, f"SOURCE_DATE_EPOCH={given}: accepted: whole seconds since 1970")
    return datetime.fromtimestamp(int(given), UTC)
