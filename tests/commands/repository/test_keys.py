"""Which keys sign a repository, and which are refused, before anything is written."""

from pathlib import Path

import pytest

from tests.commands.repository.machine import LONG_AGO, Keys, contents, publish, refused
from tests.refusals import command_error
from tributary.settings.errors import CommandError, Exit


def test_another_key_is_refused_unless_one_asks_for_it(repository: Path, packages: Path, keys: Keys) -> None:
    before = contents(repository)
    with command_error(Exit.USAGE, f"is signed by {keys.one}, not by {keys.other}", "--replace-key"):
        publish(repository, packages, keys.other)
    assert contents(repository) == before


def test_no_secret_gets_out(repository: Path, keys: Keys, capfd: pytest.CaptureFixture[str]) -> None:
    publish(repository, repository / "pool", keys.file)
    said = capfd.readouterr()
    for text in (said.out, said.err, *(content.decode(errors="replace") for content in contents(repository).values())):
        assert "PRIVATE KEY" not in text
    assert (repository / "key.asc").read_text() == keys.keyring.gpg(
        "--armor", "--export-options=export-minimal", "--export", keys.one
    )


def test_a_key_that_others_may_read_is_refused(tmp_path: Path, packages: Path, keys: Keys) -> None:
    loose = keys.keyring.exported(keys.one, tmp_path / "key.asc")
    loose.chmod(0o640)
    refused(tmp_path, packages, loose, Exit.USAGE, f"chmod 600 {loose}")


def test_a_key_that_would_be_published_is_refused(repository: Path, packages: Path, keys: Keys) -> None:
    inside = keys.keyring.exported(keys.one, repository / "secret.asc")
    with pytest.raises(CommandError, match="so that nobody publishes it"):
        publish(repository, packages, inside)


def test_a_public_key_cannot_sign(tmp_path: Path, packages: Path, keys: Keys) -> None:
    public = tmp_path / "public.asc"
    public.touch(0o600)
    public.write_text(keys.keyring.gpg("--armor", "--export", keys.one))
    refused(tmp_path, packages, public, Exit.BAD_DATA, "0 secret keys in it")


def test_an_expired_key_is_refused_by_name(tmp_path: Path, packages: Path, keys: Keys) -> None:
    old = keys.keyring.new("old", LONG_AGO, "1d")
    refused(tmp_path, packages, old, Exit.BAD_DATA, f"the key {old} does not sign")


def test_a_key_with_a_passphrase_is_refused_in_a_file(tmp_path: Path, packages: Path, keys: Keys) -> None:
    locked = keys.keyring.new("locked", LONG_AGO, passphrase="secret")
    file = keys.keyring.exported(locked, tmp_path / "locked.asc", passphrase="secret")
    refused(tmp_path, packages, file, Exit.BAD_DATA, "accepted in a file: a key without a passphrase")


def test_a_key_that_is_younger_than_the_date_cannot_sign(
    tmp_path: Path, packages: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(LONG_AGO - 86400))
    refused(tmp_path, packages, keys.one, Exit.BAD_DATA, f"the key {keys.one} does not sign")


@pytest.mark.parametrize("key", ["0" * 40, "nowhere.asc"])
def test_a_key_that_is_not_there_is_named(tmp_path: Path, packages: Path, key: str) -> None:
    refused(tmp_path, packages, key, Exit.NO_INPUT, f"--key {key}: ")
