"""build-deb --repository as a person uses it: what comes to a repository, what stays, and what is refused."""

import json
from pathlib import Path

import pytest

from debs.__main__ import main
from tests.commands.repository.machine import DATE, SUITE, Apt, Keys, contents, publish, refused, sources_of
from tests.debs import dummies
from tests.refusals import command_error, usage_error
from tributary.settings.errors import CommandError, Exit


def test_the_same_packages_key_and_date_give_the_same_bytes(
    tmp_path: Path, packages: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(DATE))
    for name, key in (("one", keys.one), ("again", keys.file)):
        publish(tmp_path / name, packages, key, url="https://packages.example.net")
    assert contents(tmp_path / "one") == contents(tmp_path / "again")


def test_later_packages_come_to_those_that_are_there(apt: Apt, repository: Path, tmp_path: Path, keys: Keys) -> None:
    publish(repository, dummies.packages(tmp_path / "1.1", "1.1", (SUITE,)), keys.one)
    assert sorted(path.name for path in (repository / "dists").iterdir()) == ["bookworm", "noble", "trixie"]
    apt.add(sources_of(repository))
    apt.get("update")
    assert "dummy-native (1.1-1~deb13" in apt.get("install", "--simulate", "dummy-native").stdout
    assert "dummy-native (1.0-1~deb13" in apt.get("install", "--simulate", "dummy-native=1.0-1~deb13").stdout


def test_what_is_taken_out_of_the_pool_is_gone(repository: Path, keys: Keys) -> None:
    (repository / "pool" / SUITE / "dummy-all_1.0-1~deb13_all.deb").unlink()
    publish(repository, repository / "pool", keys.one)
    assert "dummy-all" not in (repository / "dists" / SUITE / "main/binary-amd64/Packages").read_text()
    assert not list(repository.glob(".*"))


def test_a_version_that_was_published_stays_as_it_is(repository: Path, tmp_path: Path, keys: Keys) -> None:
    before = contents(repository)
    (tmp_path / "debs").mkdir()
    changed = dummies.deb(tmp_path / "debs", "dummy-all", "1.0-1~deb13", "all")
    changed.write_bytes(changed.read_bytes() + b"\n")
    with command_error(Exit.BAD_DATA, "is the same version with other bytes: make a newer one"):
        publish(repository, tmp_path / "debs", keys.one)
    assert contents(repository) == before


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, packages: Path, keys: Keys) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/one").touch()
    with pytest.raises(CommandError, match="accepted: a new or empty folder, or a repository made by build-deb"):
        publish(tmp_path / "letters", packages, keys.one)
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["one"]


def test_a_dry_run_says_what_would_come_and_writes_nothing(
    tmp_path: Path, packages: Path, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(tmp_path / "repository", packages, keys.one, "--dry-run", "--json", "--valid-days", "7")
    plan = json.loads(capsys.readouterr().out)
    assert (plan["key"], plan["builds"], len(plan["new"])) == (keys.one, [], 9)
    assert "pool/noble/dummy-native_1.0-1~ubuntu24.04_arm64.deb" in plan["new"]
    assert not (tmp_path / "repository").exists()


def test_without_packages_every_release_and_processor_would_be_built(
    tmp_path: Path, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--repository", str(tmp_path / "r"), "--key", keys.one, "--url", "https://example.net", "--dry-run"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["builds"] == [
        f"{suite} {architecture}" for suite in ("bookworm", "trixie", "noble") for architecture in ("amd64", "arm64")
    ]
    assert main([*words, "--json", "--suite", "noble", "--arch", "arm64"]) == 0
    assert json.loads(capsys.readouterr().out)["builds"] == ["noble arm64"]


def test_what_is_no_package_is_refused_by_its_name(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs/letter.deb").write_text("Dear apt\n")
    refused(tmp_path, tmp_path / "debs", keys.one, Exit.BAD_DATA, "letter.deb: no package")


def test_a_package_for_no_release_that_we_know_is_refused(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "debs").mkdir()
    dummies.deb(tmp_path / "debs", "dummy-all", "1.0-1", "all")
    accepted = "version 1.0-1: accepted: one that ends in ~deb12, ~deb13, ~ubuntu24.04"
    refused(tmp_path, tmp_path / "debs", keys.one, Exit.BAD_DATA, accepted)


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        (["--key", "x"], "go with --repository"),
        (["--replace-key"], "go with --repository"),
        (["--repository", "r", "--key", "x"], "--url, where machines will find it"),
        (["--repository", "r", "--key", "x", "--url", "example.net"], "such as https://packages.example.net"),
        (["--repository", "r", "--key", "x", "--url", "file:r"], "such as https://packages.example.net"),
        (["--repository", "r", "--key", "x", "--url", "http://a", "--valid-days", "0"], "a whole number of days"),
        (["--repository", "r", "--key", "x", "--url", "http://a", "--packages", "p", "--suite", "noble"], "without"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    words: list[str], accepted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accepted in usage_error(main, words, capsys)
