"""The low mark's program, without a kernel that takes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tributary.kernel import low_mark
from tributary.settings.errors import CommandError, Exit


def test_it_is_kept_while_its_file_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(low_mark, "PIN", tmp_path / "kept")
    assert low_mark.is_kept() is False
    (tmp_path / "kept").touch()
    assert low_mark.is_kept() is True


def test_in_a_folder_of_roots_who_may_not_look_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", refused)
    assert low_mark.is_kept() is None


def test_nothing_is_replaced_where_the_kernel_refuses_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def refusing(_program: bytes) -> Iterator[None]:
        raise CommandError(Exit.UNAVAILABLE, "this kernel does not load it")
        yield

    kept, program = tmp_path / "kept", tmp_path / "program"
    kept.touch()
    program.touch()
    monkeypatch.setattr(low_mark, "PIN", kept)
    monkeypatch.setattr(low_mark, "INSTALLED", program)
    monkeypatch.setattr(low_mark, "_attached", refusing)
    with pytest.raises(CommandError) as raised:
        low_mark.main([])
    assert raised.value.code == Exit.UNAVAILABLE
    assert kept.exists()
