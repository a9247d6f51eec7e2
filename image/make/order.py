"""What was asked for, the stages that it takes, and all of them in a row."""

import json
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from debs import build as debs
from debs import checkout
from debs.program import CONVERTER, HANDOFF, digest
from debs.release import ARCHITECTURES, SUITES, Release
from image.check.examination import examine
from image.make import base, bundle, disk, imager, lock, pack, root, stage
from image.make.boards import SUITE, Board, Role
from image.make.command import Runner
from image.make.layout import Spec
from image.make.stage import Durations, Stage
from image.progress import Progress
from tributary.settings.errors import CommandError, Exit

LOCK = Path(__file__).with_name("debian.lock")

_OWN = ("image/make", "image/debian.py", "image/partitions.py")
"""What makes an image, beside what makes packages; links there lead to what gateways get from the playbook."""

_EMULATED = {"arm64": 15.0}
"""How much longer the programs of a processor take than ours, by Debian's name for it."""


@dataclass(frozen=True)
class Order:
    """An image for a board in a role. ``cache`` keeps what came of each stage.

    ``url`` is where ``output`` will be published; None: nowhere but on this machine. ``certificate`` is a PEM file with
    those whose upgrades the image accepts; None: nobody's. With ``key``, its key, there is a bundle, too. ``locked``:
    Debian's packages have to be those of the lock.
    """

    board: Board
    role: Role
    output: Path
    cache: Path
    url: str | None = None
    certificate: Path | None = None
    key: str | None = None
    locked: bool = False

    @property
    def trusted(self) -> str:
        """The certificates; raises CommandError (64, 66) if there are none in the file."""
        return bundle.certificate(self.certificate) if self.certificate else ""

    @property
    def kind(self) -> str:
        return self.board.kind(self.role)

    @property
    def debian(self) -> base.Base:
        return base.Base(self.board, self.role, LOCK, self.locked)

    @property
    def slowness(self) -> float:
        """How many times as long as a native one its stages take."""
        return _EMULATED.get(self.board.architecture, 1.0)


@dataclass(frozen=True)
class Making:
    """The stages of ``order`` for the ``release`` that is checked out, whose files have the digest ``checkout``."""

    order: Order
    release: Release
    checkout: str

    @classmethod
    def of(cls, order: Order) -> Self:
        """By the checkout as it is; raises CommandError (69) if it is none."""
        files = checkout.tracked(*_OWN)
        return cls(order, debs.release(_debs(order, Path()), files), digest(files))

    @property
    def version(self) -> str:
        """Tributary's; Debian's number of the release is not part of it."""
        return self.release.version.rpartition("-")[0]

    @property
    def name(self) -> str:
        """The image's, without an ending."""
        return f"tributary-{self.order.kind}-{self.version}"

    @cached_property
    def spec(self) -> Spec:
        """What the image is; raises CommandError (64, 66) for its certificates."""
        order = self.order
        return Spec(order.board, order.role, self.name, self.release.commit.time, order.trusted)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files that people download, the image itself last."""
        listing = (f"{self.name}{imager.ENDING}",) if self.order.board.imager else ()
        bundles = (f"{self.name}{bundle.ENDING}",) if self.order.key else ()
        return (*listing, *bundles, *pack.names(self.name))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they need each other."""
        signed = (self.signed,) if self.order.key else ()
        return (self.parts, self.debian, self.system, self.drive, self.files, *signed)

    @cached_property
    def parts(self) -> Stage:
        """Tributary's packages, in a folder."""

        def make(target: Path, runner: Runner) -> None:
            runner.progress.update(doing="see scripts/build-deb")
            debs.packages(_debs(self.order, target))

        return self._stage("packages", (self.release.version, self.checkout), "", 60, make)

    @cached_property
    def debian(self) -> Stage:
        """Debian's packages, installed, in a tar file."""
        made = self.order.debian
        return self._stage("base", made.sources(), ".tar", 120 * self.order.slowness, made.make)

    @cached_property
    def system(self) -> Stage:
        """The root and the boot partition's files, in a tar file."""
        # The packages' key has all files of the checkout, and each later key has the one before.
        made_from = (self.name, self.parts.key, self.debian.key, self.spec.trusted)
        make = partial(root.make, self.spec, self._place(self.parts), self._place(self.debian))
        return self._stage("root", made_from, ".tar", 150 * self.order.slowness, make)

    @cached_property
    def drive(self) -> Stage:
        """The disk and its manifest, in a folder."""
        return self._stage("disk", (self.system.key,), "", 60, partial(disk.make, self.spec, self._place(self.system)))

    @cached_property
    def files(self) -> Stage:
        """What people download, in a folder."""

        def make(target: Path, runner: Runner) -> None:
            _insist(self._place(self.drive) / disk.DISK, self.order)
            packed = pack.make(self._place(self.drive), self.name, target, runner)
            if self.order.board.imager:
                found = imager.listing(self.name, self.order.role, self.version, self.release.date, packed)
                (target / f"{self.name}{imager.ENDING}").write_text(json.dumps(found))

        return self._stage("files", (self.drive.key,), "", 120, make)

    @cached_property
    def signed(self) -> Stage:
        """The bundle, for boxes with an earlier version; whose key it was is told by the certificate."""
        assert self.order.certificate
        assert self.order.key
        signing = bundle.Signing(self.order.certificate, self.order.key)
        text = bundle.manifest(self.spec.compatible, self.release.version)
        system = self.spec.layout.places["root-a"]
        make = partial(bundle.make, self._place(self.drive) / disk.DISK, system.start, system.size, text, signing)
        return self._stage("bundle", (self.drive.key, text), bundle.ENDING, 60, make)

    def _stage(self, name: str, sources: tuple[str, ...], suffix: str, seconds: float, make: stage.Make) -> Stage:
        return Stage(name, self.order.kind, sources, suffix, seconds, make)

    def _place(self, made: Stage) -> Path:
        return made.place(self.order.cache)


def _debs(order: Order, output: Path) -> debs.Order:
    """No image has the overlay's package, which takes minutes."""
    architecture, cache = ARCHITECTURES[order.board.architecture], order.cache.parent / "packages"
    return debs.Order(SUITES[SUITE], architecture, output, cache, programs=(CONVERTER, HANDOFF))


def _insist(path: Path, order: Order) -> None:
    """Raise CommandError (1) unless the disk is what the board and the role need."""
    wrong = [str(finding) for finding in examine(path, order.board.name, order.role) if not finding.fine]
    if wrong:
        listed = "".join(f"\n  {line}" for line in wrong)
        raise CommandError(Exit.WRONG_RESULT, f"{path}: it was made, and is not right:{listed}")


def outlook(making: Making) -> dict[str, Any]:
    """What a build would do, for a program: each stage, whether it is in the cache, and the seconds that it takes."""
    times, cache = Durations(making.order.cache / "durations.json"), making.order.cache
    stages = [
        {"stage": each.name, "cached": each.place(cache).exists(), "seconds": times.of(each)} for each in making.stages
    ]
    files = [str(making.order.output / name) for name in making.names]
    return {"image": making.name, "stages": stages, "files": files}


def build(making: Making, progress: Progress) -> list[Path]:
    """Make the image; returns its files, the image itself last. Raises CommandError (1, 66, 69, 71).

    Where Debian has moved on since the lock was written, ``progress`` says so.
    """
    order = making.order
    order.debian.locked()
    stage.run(making.stages, order.cache, progress)
    if lines := order.debian.differences(making.debian.place(order.cache)):
        progress.note(lock.told(lines, order.debian.lock_path.name))
    return deliver(making)


def deliver(making: Making) -> list[Path]:
    """Copy what is in the cache to the output; in the list for Raspberry Pi Imager, links get their address."""
    order, packed = making.order, making.files.place(making.order.cache)
    others: dict[str, Path | str] = {}
    if order.board.imager:
        name = f"{making.name}{imager.ENDING}"
        address = order.url or order.output.resolve().as_uri()
        others[name] = f"{json.dumps(imager.addressed(json.loads((packed / name).read_text()), address), indent=2)}\n"
    if order.key:
        others[f"{making.name}{bundle.ENDING}"] = making.signed.place(order.cache)
    return pack.deliver(packed, making.name, order.output, others)


def update_lock(order: Order, progress: Progress) -> None:
    """Write the lock by today's Debian, and keep what was made for that as the base; raises CommandError (69, 71)."""
    log = order.cache / "logs" / f"update-lock-{order.kind}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    progress.begin("lock", "1/1", 120 * order.slowness)
    made = order.debian.update_lock(order.cache, Runner(log, progress))
    made.rename(Making.of(order).debian.place(order.cache))
    progress.end()
