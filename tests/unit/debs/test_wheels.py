"""What is taken out of a wheel, and which wheels are refused."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from debs.wheels import unpacked
from tests.refusals import command_error
from tributary.settings.errors import CommandError, Exit

ABOUT = "quick-1.2.dist-info"
FILES = {
    "quick/__init__.py": b"go = 1\n",
    f"{ABOUT}/METADATA": b"Metadata-Version: 2.4\nName: quick\nVersion: 1.2\nLicense-Expression: MIT\n",
}


def packed(folder: Path, files: Mapping[str, bytes], recorded: Mapping[str, bytes]) -> Path:
    """A wheel with ``files``, whose RECORD is that of ``recorded``."""
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        for name, content in recorded.items()
    }
    record = [f"{name},sha256={digests[name]},{len(content)}\n" for name, content in recorded.items()]
    path = folder / "quick-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{ABOUT}/RECORD", "".join([*record, f"{ABOUT}/RECORD,,\n"]))
    return path


def test_a_wheel_is_unpacked_without_its_scripts(tmp_path: Path) -> None:
    files = {**FILES, "quick-1.2.data/scripts/quick": b"#!python\n"}
    wheel = unpacked(packed(tmp_path, files, files))
    assert (wheel.name, wheel.version, wheel.licence) == ("quick", "1.2", "MIT")
    assert {name: wheel.files[name] for name in FILES} == FILES
    assert wheel.files.keys() == {*FILES, f"{ABOUT}/RECORD"}
    assert (wheel.tops, wheel.about) == ([f"{ABOUT}/*", "quick/*"], ABOUT)


@pytest.mark.parametrize(
    "change",
    [{"quick/__init__.py": b"go = 2\n"}, {"quick/more.py": b""}],
    ids=["a file that was changed", "a file that is not in the record"],
)
def test_a_wheel_that_is_not_what_it_says_is_refused(tmp_path: Path, change: Mapping[str, bytes]) -> None:
    with command_error(Exit.UNAVAILABLE, "quick-1.2-py3-none-any.whl: no sound wheel: ", "RECORD"):
        unpacked(packed(tmp_path, {**FILES, **change}, FILES))


def test_a_file_that_is_no_wheel_or_has_modules_in_the_folder_of_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "quick-1.2-py3-none-any.whl"
    path.write_bytes(b"not found")
    with pytest.raises(CommandError, match="no sound wheel"):
        unpacked(path)
    files = {**FILES, "quick-1.2.data/purelib/quick.py": b""}
    with pytest.raises(CommandError, match=r"modules under \.data"):
        unpacked(packed(tmp_path, files, files))
