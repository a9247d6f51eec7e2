"""What is done with the slot that a bundle was written into: of a URL it may be another one than was accepted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from image.upgrade import __main__ as command
from image.upgrade import machine, own
from image.upgrade.bundle import Bundle, Slots
from image.upgrade.own import Trial
from tests.refusals import command_error
from tests.unit.image.upgrade.test_bundle import status
from tributary.settings.errors import Exit

URL = "https://images.example.net/tributary.raucb"
RUNNING, ACCEPTED = "0.2.0-1~deb13", "0.3.0-1~deb13"


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The other slot of a machine, with nothing in it but a file ``version``, which RAUC would write."""

    @contextmanager
    def mounted(device: str, *, change: bool = False) -> Iterator[Path]:
        assert (device, change) == ("/dev/tributary/root-b", True)
        yield tmp_path

    def version(root: Path = Path("/")) -> str:
        return RUNNING if root == Path("/") else (root / "version").read_text()

    facts = {
        "slots": lambda: Slots.of(status()),
        "bundle": lambda _where: Bundle("tributary-gateway-x86", ACCEPTED),
        "version": version,
        "mounted": mounted,
        "mark": lambda state, slot: (tmp_path / "marked").write_text(f"{state} {slot}"),
    }
    for name, value in facts.items():
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(command, "BOOT", tmp_path)
    monkeypatch.setattr(command, "need_root", lambda _why: None)
    monkeypatch.setattr(own, "carry", lambda _source, target: (target / "carried").touch())
    return tmp_path


def install(slot: Path, monkeypatch: pytest.MonkeyPatch, version: str, *options: str) -> None:
    """Have a bundle with ``version`` served when it is written."""
    monkeypatch.setattr(machine, "install", lambda _where: (slot / "version").write_text(version))
    command.main(["install", URL, *options])


def test_what_was_accepted_is_put_on_trial(slot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(slot, monkeypatch, ACCEPTED)
    assert Trial(slot).on and Trial(slot).reason == ""
    assert (slot / "marked").read_text() == "active other"


@pytest.mark.parametrize("options", [(), ("--allow-older",)])
@pytest.mark.parametrize("version", ["0.1.0-1~deb13", RUNNING, "0.4.0-1~deb13", ""])
def test_another_version_than_the_accepted_one_never_starts(
    slot: Path, monkeypatch: pytest.MonkeyPatch, version: str, options: tuple[str, ...]
) -> None:
    """Who serves bundles needs no key to serve an older one for the second reading."""
    with command_error(Exit.BAD_DATA, f"{URL}: version ", f" was in it, not {ACCEPTED}"):
        install(slot, monkeypatch, version, *options)
    assert not (slot / "marked").exists() and not (slot / "carried").exists()
    assert not Trial(slot).on and (version or "unknown") in Trial(slot).reason


@pytest.mark.usefixtures("slot")
@pytest.mark.parametrize("version", ["", RUNNING])
def test_after_an_upgrade_that_broke_off_nobody_is_said_to_have_started_the_slot_or_to_make_a_first_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    monkeypatch.setattr(command, "_inside", lambda _device: command._System(version))
    with command_error(Exit.UNAVAILABLE, "was not written whole" if version else ", nor after one that broke off"):
        command.main(["back"])
    command.main(["status"])
    assert ("or was not written whole" if version else "slot B: empty") in capsys.readouterr().out
