"""What goes wrong while a card is written: it is found and told, and the card never looks finished."""

import errno
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from image.flash.source import BLOCK
from tests.devices.flashing import (
    DISK,
    HOLES,
    IMAGE,
    MAP,
    OLD,
    TAIL,
    USELESS,
    claimed,
    events,
    expected,
    flash_pi,
    started,
    written,
)
from tests.devices.loops import loop, measure_again
from tests.devices.medium import Medium, served
from tests.unit.image.flash.made import files
from tributary.settings.errors import Exit

MIDDLE = 5_000_000


@pytest.fixture
def medium() -> Medium:
    if not Path("/dev/fuse").exists():
        pytest.skip("needs /dev/fuse (CONFIG_FUSE_FS)")
    made = Medium(DISK)
    made.data[:] = OLD * DISK
    return made


@pytest.fixture
def device(medium: Medium, tmp_path: Path) -> Iterator[Path]:
    with served(medium, tmp_path / "medium") as file, loop(file) as path:
        yield path


@dataclass
class Pause:
    """Stops the medium at the first write or read that reaches the byte ``MIDDLE``, until the test lets it go on."""

    reached: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, offset: int, data: bytes) -> bytes:
        if offset + len(data) > MIDDLE and not self.over.is_set():
            self.reached.set()
            assert self.over.wait(60)
        return data


def interrupted(
    medium: Medium, step: str, image: Path, device: Path, by: Callable[[subprocess.Popen[str]], object]
) -> subprocess.CompletedProcess[str]:
    """The command, in the midst of whose step something is done while the medium stands still."""
    pause = Pause()
    with started("--yes", "--force", image, device) as process:
        setattr(medium, step, pause)
        try:
            assert pause.reached.wait(60)
            by(process)
        finally:
            pause.over.set()
        output, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def not_finished(medium: Medium) -> None:
    """The card has no partition table, and what lies after the image, but for the end, was not touched."""
    assert medium.data[:BLOCK] == bytes(BLOCK)
    assert medium.data[len(IMAGE) : DISK - TAIL] == OLD * (DISK - TAIL - len(IMAGE))


def failed(medium: Medium, image: Path, device: Path, code: Exit, reason: str) -> None:
    result = flash_pi("--yes", "--force", image, device)
    assert result.returncode == code, result.stderr
    assert reason in result.stderr
    is_useless(result, device, medium)


def is_useless(result: subprocess.CompletedProcess[str], device: Path, medium: Medium) -> None:
    """The command says so, and the card is not finished."""
    assert f"{device} {USELESS}" in result.stderr
    assert "Traceback" not in result.stderr
    assert "is written" not in result.stdout
    not_finished(medium)


def flipped(at: int, offset: int, data: bytes) -> bytes:
    """``data`` from ``offset`` on, with one bit flipped in the byte ``at``, if that is among them."""
    if not offset <= at < offset + len(data):
        return data
    return data[: at - offset] + bytes([data[at - offset] ^ 1]) + data[at - offset + 1 :]


def test_a_medium_without_faults_is_written(medium: Medium, device: Path, image: Path) -> None:
    written(image, device)
    assert bytes(medium.data) == expected()


def test_a_medium_that_cannot_forget_is_overwritten_only_where_it_holds_something(
    medium: Medium, device: Path, tmp_path: Path
) -> None:
    blank, used = (slice(hole.start * BLOCK, hole.stop * BLOCK) for hole in HOLES)
    medium.data[blank] = b"\xff" * len(HOLES[0]) * BLOCK  # erased flash memory, of some makes
    medium.data[DISK - TAIL :] = bytes(TAIL)
    starts: list[int] = []

    def seen(start: int, data: bytes) -> bytes:
        starts.append(start)
        return data

    medium.on_write = seen
    written(files(tmp_path, IMAGE, bmap=MAP), device)
    assert medium.data[blank] == b"\xff" * len(HOLES[0]) * BLOCK
    assert medium.data[used] == bytes(len(HOLES[1]) * BLOCK)
    assert max(starts) < len(IMAGE)


def test_what_cannot_be_read_where_the_image_has_a_hole_is_overwritten(
    medium: Medium, device: Path, tmp_path: Path
) -> None:
    hole = range(HOLES[1].start * BLOCK, HOLES[1].stop * BLOCK)

    def unreadable(start: int, data: bytes) -> bytes:
        if start in hole:
            raise OSError(errno.EIO, "unreadable")
        return data

    medium.on_read = unreadable
    written(files(tmp_path, IMAGE, bmap=MAP), device)
    assert bytes(medium.data) == expected()


def broken(start: int, data: bytes) -> bytes:
    """Nothing can be read or written there."""
    if start <= MIDDLE < start + len(data):
        raise OSError(errno.EIO, "worn out")
    return data


CHUNK = f"{4 << 20} to {8 << 20}"
DIFFER = "differ from the image"
FAULTS: dict[str, tuple[str, Callable[[int, bytes], bytes], Exit, str]] = {
    **{
        f"the medium flips a bit at {offset}": ("on_write", partial(flipped, offset), Exit.WRONG_RESULT, DIFFER)
        for offset in (BLOCK, MIDDLE, len(IMAGE) - 1)
    },
    "a bit is flipped in reading": ("on_read", partial(flipped, MIDDLE), Exit.WRONG_RESULT, f"bytes {CHUNK} {DIFFER}"),
    "a bit is flipped in the partition table": (
        "on_write",
        lambda start, data: flipped(450, start, data) if any(data[:BLOCK]) else data,
        *(Exit.WRONG_RESULT, f"bytes 0 to {BLOCK} {DIFFER}"),
    ),
    "a card claims more than it has, takes all and drops it": (
        "on_write",
        lambda start, data: data if start < MIDDLE else OLD * len(data),
        *(Exit.WRONG_RESULT, DIFFER),
    ),
    # The whole write fails, which began where the chunk begins.
    "an error in writing": ("on_write", broken, Exit.SYSTEM, f"writing at byte {4 << 20}: Input/output error"),
    "an error in reading back": ("on_read", broken, Exit.SYSTEM, f"reading at byte {4 << 20}: Input/output error"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_its_place_and_the_card_has_no_partitions(
    medium: Medium, device: Path, image: Path, name: str
) -> None:
    step, fault, code, reason = FAULTS[name]
    setattr(medium, step, fault)
    failed(medium, image, device, code, reason)


def test_a_medium_that_takes_nothing_is_told(medium: Medium, device: Path, image: Path) -> None:
    def locked(_start: int, _data: bytes) -> bytes:
        raise OSError(errno.EIO, "locked")

    medium.on_write = locked
    result = flash_pi("--yes", "--force", image, device)
    assert result.returncode == Exit.SYSTEM
    assert f"{device}: clearing at byte 0" in result.stderr
    assert bytes(medium.data) == OLD * DISK


def test_the_failure_is_told_to_programs_as_well(medium: Medium, device: Path, image: Path) -> None:
    medium.on_write = lambda start, data: flipped(MIDDLE, start, data)
    last = events(flash_pi("--yes", "--force", "--json", image, device))[-1]
    assert (last["event"], last["code"]) == ("failed", Exit.WRONG_RESULT)
    assert "differ from the image" in last["error"]
    assert [USELESS in note for note in last["notes"]] == [True]


@pytest.mark.parametrize("step", ["on_write", "on_read"])
def test_a_card_that_is_pulled_out_is_told(medium: Medium, device: Path, image: Path, step: str) -> None:
    result = interrupted(medium, step, image, device, lambda _: pulled(medium, device))
    assert result.returncode == Exit.UNAVAILABLE
    assert "the card or its reader is gone" in result.stderr
    assert f"{device} {USELESS}" in result.stderr


def pulled(medium: Medium, device: Path) -> None:
    """A reader whose card is pulled out stays, with a size of 0; what is under way there fails."""
    medium.data = bytearray()
    measure_again(device)


@pytest.mark.parametrize("step", ["on_write", "on_read"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)])
def test_a_signal_in_the_middle_leaves_a_card_that_looks_empty(
    medium: Medium, device: Path, image: Path, step: str, number: signal.Signals, code: Exit
) -> None:
    result = interrupted(medium, step, image, device, lambda process: process.send_signal(number))
    assert result.returncode == code
    is_useless(result, device, medium)


def test_ctrl_c_at_the_question_touches_nothing(medium: Medium, device: Path, image: Path) -> None:
    with started("--force", image, device) as process:
        assert process.stdout
        assert [process.stdout.readline().split(":")[0] for _ in range(2)] == [str(device), str(image)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED
    assert USELESS not in errors
    assert bytes(medium.data) == OLD * DISK


def test_while_it_writes_nobody_else_can_claim_the_disk(medium: Medium, device: Path, image: Path) -> None:
    def claim(_: object) -> None:
        with pytest.raises(OSError) as refusal:
            claimed(device)
        assert refusal.value.errno == errno.EBUSY

    assert interrupted(medium, "on_write", image, device, claim).returncode == 0


def test_after_a_failure_the_card_can_be_written_again(medium: Medium, device: Path, image: Path) -> None:
    medium.on_write = lambda start, data: flipped(MIDDLE, start, data)
    failed(medium, image, device, Exit.WRONG_RESULT, "differ")
    medium.on_write = lambda _start, data: data
    written(image, device)
    assert flash_pi("--verify-only", image, device).returncode == 0


def test_a_full_disk_below_is_told(tmp_path: Path, image: Path) -> None:
    # The file of the loop device lies on a file system that is smaller than it; both end with their namespace.
    small = tmp_path / "small"
    small.mkdir()
    script = f"""
        mount -t tmpfs -o size=8M tmpfs {small} && truncate -s {DISK} {small}/disk &&
        device=$(losetup --find --show {small}/disk) && trap 'losetup --detach "$device"' EXIT && "$@" "$device"
    """
    inside = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    result = flash_pi("--yes", "--force", image, inside=inside)
    assert result.returncode == Exit.SYSTEM, result.stderr
    assert "writing at byte" in result.stderr
    assert USELESS in result.stderr
