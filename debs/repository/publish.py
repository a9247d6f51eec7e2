"""A repository, made and signed anew from what is in its pool and what comes to it."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from debs.release import ARCHITECTURES, SUITES
from debs.repository import indexes, key, pool
from debs.repository.pool import Deb
from debs.repository.texts import release_fields, sources
from tributary.settings.errors import CommandError, Exit

KEY, SOURCES = "key.asc", "tributary.sources"


@dataclass(frozen=True)
class Order:
    """A repository in ``folder``, signed by ``key`` (see key.opened), which machines reach by ``url``.

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
        """When machines stop to take it."""
        return None if self.valid_for is None else self.date + timedelta(days=self.valid_for)


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
        "new": [deb.place for deb in pool.arrivals(debs, order.folder)],
        "there": [str(path.relative_to(order.folder)) for path in sorted(order.folder.glob("pool/*/*.deb"))],
    }


def publish(order: Order, debs: Sequence[Deb]) -> list[Path]:
    """Add ``debs``, write and sign all indexes; returns what a machine of each suite needs. Raises CommandError.

    Whoever reads meanwhile finds the indexes of before or those of now, signatures and all.
    """
    try:
        with _signer(order) as signer:
            new, public = pool.arrivals(debs, order.folder), signer.public
            order.folder.mkdir(parents=True, exist_ok=True)
            (order.folder / KEY).write_text(public)  # first: by it a run that ended early knows the folder again
            for deb in new:
                _copy(deb.file, order.folder / deb.place)
            return _write(order, signer, public)
    except OSError as error:
        raise CommandError(
            Exit.SYSTEM, f"{error.filename or order.folder}: cannot be written: {error.strerror}"
        ) from error


@contextmanager
def _signer(order: Order) -> Iterator[key.Key]:
    with key.opened(order.key, order.folder) as signer:
        _insist_on_the_same_key(order, signer.fingerprint)
        signer.detached(b"", int(order.date.timestamp()))  # that it can: before anything is built or written
        yield signer


def _insist_on_the_same_key(order: Order, fingerprint: str) -> None:
    """Machines trust the key that they were given: with another one, none of them takes the repository any more."""
    known = order.folder / KEY
    if known.exists():
        before = key.fingerprint_of(known)
        if before != fingerprint and not order.replace_key:
            raise CommandError(
                Exit.USAGE,
                f"{order.folder} is signed by {before}, not by {fingerprint}: machines that use it would refuse it;"
                " accepted: its key, or --replace-key",
            )
    elif order.folder.is_dir() and any(order.folder.iterdir()):
        raise CommandError(
            Exit.USAGE, f"{order.folder}: accepted: a new or empty folder, or a repository made by build-deb"
        )


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    try:
        shutil.copyfile(source, partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _write(order: Order, signer: key.Key, public: str) -> list[Path]:
    """All of ``dists``, which takes the place of the one before when it is whole."""
    with tempfile.TemporaryDirectory(dir=order.folder, prefix=".build-deb-") as work:
        dists = Path(work, "dists")
        suites = [suite for suite in SUITES if any(order.folder.glob(f"pool/{suite}/*.deb"))]
        for suite in suites:
            _write_suite(order, suite, dists / suite, signer, public)
        if (order.folder / "dists").exists():
            (order.folder / "dists").rename(Path(work, "before"))
        dists.rename(order.folder / "dists")
    return [order.folder / "dists" / suite / SOURCES for suite in suites]


def _write_suite(order: Order, suite: str, folder: Path, signer: key.Key, public: str) -> None:
    debs = [pool.read(path) for path in order.folder.glob(f"pool/{suite}/*.deb")]
    architectures = pool.architectures(debs, ARCHITECTURES)
    for architecture in architectures:
        _put(folder / f"main/binary-{architecture}", indexes.packages(order.folder, suite, architecture))
    release = indexes.release(folder, release_fields(suite, architectures, order.date, order.until))
    seconds = int(order.date.timestamp())
    signed = {
        "Release": release,
        "Release.gpg": signer.detached(release, seconds),
        "InRelease": signer.clear_signed(release, seconds),
        SOURCES: sources(suite, order.url, public).encode(),
    }
    _put(folder, signed)


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def now(environment: Mapping[str, str]) -> datetime:
    """The date of what is signed: SOURCE_DATE_EPOCH, or the clock's; raises CommandError (64)."""
    given = environment.get("SOURCE_DATE_EPOCH")
    if given is None:
        return datetime.now(UTC).replace(microsecond=0)
    if not (given.isascii() and given.isdigit()):
        raise CommandError(Exit.USAGE, f"SOURCE_DATE_EPOCH={given}: accepted: whole seconds since 1970")
    return datetime.fromtimestamp(int(given), UTC)
