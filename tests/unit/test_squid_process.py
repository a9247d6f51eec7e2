"""Signals while Squid is being started: whatever was made by then is taken away again."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from squid import process
from squid.settings import SquidSettings
from tributary.kernel import nft
from tributary.settings.cli import _unwind


@pytest.fixture(autouse=True)
def unwinding() -> Iterator[None]:
    """SIGTERM does here what it does in a program."""
    before = signal.signal(signal.SIGTERM, _unwind)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_guard_that_is_loaded_when_a_signal_comes_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def execute(script: str) -> None:
        done.append(script)
        if len(done) == 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(nft, "execute", execute)
    with pytest.raises(SystemExit), process._guard("table inet squid {}"):
        raise AssertionError
    assert done == ["table inet squid {}", nft.delete("inet squid")]


def test_a_configuration_that_is_written_when_a_signal_comes_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def written(path: Path, text: str) -> None:
        write(path, text)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Path, "write_text", written)
    with pytest.raises(SystemExit), process._written(tmp_path / "squid.conf", "x"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_squid_that_runs_when_a_signal_comes_is_ended(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything could know it: it would go on without its guard."""
    started = subprocess.Popen(["sleep", "60"])

    def popen(*_: object, **__: object) -> subprocess.Popen[bytes]:
        signal.raise_signal(number)
        return started

    monkeypatch.setattr(subprocess, "Popen", popen)
    settings = SquidSettings(state_directory=tmp_path)
    try:
        with pytest.raises((SystemExit, KeyboardInterrupt)), process._squid(settings, ()):
            raise AssertionError
        assert started.poll() == -signal.SIGTERM
    finally:
        started.kill()
        started.wait()
