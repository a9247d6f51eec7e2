"""A repository of dummy packages, made as a person makes it: apt itself, in its own root, takes or refuses it."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from debs.__main__ import main
from tests.debs import dummies
from tributary.settings.failure import Exit, Failure

TOOLS = ("apt-get", "apt-ftparchive", "dpkg-deb", "gpg")
missing = [tool for tool in TOOLS if not shutil.which(tool)]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}")

SUITE, DATE = "trixie", 1_795_280_493  # 2026-11-21 17:01:33 UTC
LONG_AGO = 1_600_000_000


@dataclass(frozen=True)
class Keys:
    """Two keys of one keyring, made long ago, and the first of them in a file."""

    keyring: dummies.Keyring
    one: str
    other: str
    file: Path


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    with dummies.keyring() as keyring:
        one, other = (keyring.new(name, LONG_AGO) for name in ("one", "other"))
        yield Keys(keyring, one, other, keyring.exported(one, keyring.home / "one.asc"))


@pytest.fixture(autouse=True)
def users_keyring(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNUPGHOME", str(keys.keyring.home))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dummies.packages(tmp_path_factory.mktemp("debs") / "1.0")


def publish(repository: Path, packages: Path, key: str | Path, *more: str, url: str | None = None) -> None:
    where = url or f"file:{repository}"
    words = ["--repository", str(repository), "--packages", str(packages), "--key", str(key), "--url", where]
    assert main([*words, *more]) == 0


@pytest.fixture
def repository(tmp_path: Path, packages: Path, keys: Keys) -> Path:
    publish(tmp_path / "repository", packages, keys.one)
    return tmp_path / "repository"


class Apt:
    """apt of this machine with settings, lists, caches, keys and a dpkg database of its own, all empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc/apt/sources.list.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        # Read first (apt.conf(5)): what this machine says in /etc/apt does not count.
        (root / "apt.conf").write_text(f"""\
Dir "{root}";
Dir::State::status "{root}/status";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
""")

    def add(self, sources: Path) -> None:
        """As docs/packages.md tells a user."""
        shutil.copy(sources, self.root / "etc/apt/sources.list.d/tributary.sources")

    def get(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"APT_CONFIG": str(self.root / "apt.conf"), "LC_ALL": "C"}
        command = ["apt-get", *words]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False, env=environment)

    def refusal(self) -> str:
        """What `apt-get update` says, which must fail."""
        done = self.get("update", "--error-on=any")
        assert done.returncode == 100
        return done.stderr


@pytest.fixture
def apt(tmp_path: Path) -> Apt:
    return Apt(tmp_path / "root")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A static web server of ``folder`` on loopback; its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


def taken(apt: Apt, sources: Path) -> None:
    """apt takes the repository: it updates, downloads the very package, and would install both."""
    apt.add(sources)
    updated = apt.get("update", "--error-on=any")
    assert updated.returncode == 0, updated.stderr
    assert apt.get("download", "hr-native").returncode == 0
    pool = sources.parents[2] / "pool" / SUITE
    (downloaded,) = apt.root.glob("*.deb")
    assert downloaded.read_bytes() == next(pool.glob("hr-native_*_amd64.deb")).read_bytes()
    would = apt.get("install", "--simulate", *dummies.NAMES).stdout
    assert {line for line in would.splitlines() if line.startswith("Inst ")} == {
        "Inst hr-native (1.0-1~deb13 Tributary:trixie [amd64])",
        "Inst hr-all (1.0-1~deb13 Tributary:trixie [all])",
    }


def sources_of(repository: Path) -> Path:
    return repository / "dists" / SUITE / "tributary.sources"


def test_apt_takes_it_from_a_folder(apt: Apt, repository: Path) -> None:
    taken(apt, sources_of(repository))


def test_apt_takes_it_from_a_web_server_signed_by_a_key_in_a_file(
    apt: Apt, tmp_path: Path, packages: Path, keys: Keys
) -> None:
    with served(tmp_path / "repository") as url:
        publish(tmp_path / "repository", packages, keys.file, "--valid-days", "30", url=f"{url}/")
        taken(apt, sources_of(tmp_path / "repository"))


def test_an_index_that_somebody_changed_is_refused(apt: Apt, repository: Path) -> None:
    for index in (repository / "dists" / SUITE).glob("main/*/Packages*"):
        index.write_bytes(bytes([index.read_bytes()[0] ^ 1]) + index.read_bytes()[1:])
    apt.add(sources_of(repository))
    assert "Hash Sum mismatch" in apt.refusal()


def test_a_package_that_somebody_changed_is_refused(apt: Apt, repository: Path) -> None:
    apt.add(sources_of(repository))
    assert apt.get("update").returncode == 0
    (package,) = (repository / "pool" / SUITE).glob("hr-native_*_amd64.deb")
    package.write_bytes(package.read_bytes()[:-1] + b"x")
    refused = apt.get("download", "hr-native")
    assert (refused.returncode, "Hash Sum mismatch" in refused.stderr) == (100, True)


def test_a_release_without_a_signature_is_refused(apt: Apt, repository: Path) -> None:
    for name in ("InRelease", "Release.gpg"):
        (repository / "dists" / SUITE / name).unlink()
    apt.add(sources_of(repository))
    assert "is not signed" in apt.refusal()


def test_a_signed_release_that_somebody_changed_is_refused(apt: Apt, repository: Path) -> None:
    release = repository / "dists" / SUITE / "InRelease"
    release.write_text(release.read_text().replace("Suite: trixie", "Suite: sid"))
    apt.add(sources_of(repository))
    assert "not valid" in apt.refusal() or "not signed" in apt.refusal()


def test_machines_refuse_another_key_than_the_one_that_they_were_given(
    apt: Apt, repository: Path, packages: Path, keys: Keys
) -> None:
    apt.add(sources_of(repository))
    publish(repository, packages, keys.other, "--replace-key")
    assert keys.other[-16:] in apt.refusal()


def test_it_expires(apt: Apt, tmp_path: Path, packages: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(LONG_AGO + 86400))
    publish(tmp_path / "repository", packages, keys.one, "--valid-days", "7")
    apt.add(sources_of(tmp_path / "repository"))
    assert "expired" in apt.refusal()


def test_the_signature_beside_the_release_is_good_too(repository: Path, keys: Keys) -> None:
    folder = repository / "dists" / SUITE
    keys.keyring.gpg("--verify", str(folder / "Release.gpg"), str(folder / "Release"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    assert "hr-native (1.1-1~deb13" in apt.get("install", "--simulate", "hr-native").stdout
    assert "hr-native (1.0-1~deb13" in apt.get("install", "--simulate", "hr-native=1.0-1~deb13").stdout


def test_what_is_taken_out_of_the_pool_is_gone(repository: Path, keys: Keys) -> None:
    (repository / "pool" / SUITE / "hr-all_1.0-1~deb13_all.deb").unlink()
    publish(repository, repository / "pool", keys.one)
    assert "hr-all" not in (repository / "dists" / SUITE / "main/binary-amd64/Packages").read_text()
    assert not list(repository.glob(".*"))


def test_a_version_that_was_published_stays_as_it_is(repository: Path, tmp_path: Path, keys: Keys) -> None:
    before = contents(repository)
    (tmp_path / "debs").mkdir()
    changed = dummies.deb(tmp_path / "debs", "hr-all", "1.0-1~deb13", "all")
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(Failure, match="is the same version with other bytes: make a newer one") as refused:
        publish(repository, tmp_path / "debs", keys.one)
    assert refused.value.code == Exit.BAD_DATA
    assert contents(repository) == before


def test_another_key_is_refused_unless_one_asks_for_it(repository: Path, packages: Path, keys: Keys) -> None:
    before = contents(repository)
    with pytest.raises(Failure, match=f"is signed by {keys.one}, not by {keys.other}.*--replace-key") as refused:
        publish(repository, packages, keys.other)
    assert refused.value.code == Exit.USAGE
    assert contents(repository) == before


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, packages: Path, keys: Keys) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/one").touch()
    with pytest.raises(Failure, match="accepted: a new or empty folder, or a repository made by build-deb"):
        publish(tmp_path / "letters", packages, keys.one)
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["one"]


def test_no_secret_gets_out(repository: Path, keys: Keys, capfd: pytest.CaptureFixture[str]) -> None:
    publish(repository, repository / "pool", keys.file)
    said = capfd.readouterr()
    for text in (said.out, said.err, *(content.decode(errors="replace") for content in contents(repository).values())):
        assert "PRIVATE KEY" not in text
    assert (repository / "key.asc").read_text() == keys.keyring.gpg(
        "--armor", "--export-options=export-minimal", "--export", keys.one
    )


def test_a_dry_run_says_what_would_come_and_writes_nothing(
    tmp_path: Path, packages: Path, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(tmp_path / "repository", packages, keys.one, "--dry-run", "--json", "--valid-days", "7")
    plan = json.loads(capsys.readouterr().out)
    assert (plan["key"], plan["builds"], len(plan["new"])) == (keys.one, [], 9)
    assert "pool/noble/hr-native_1.0-1~ubuntu24.04_arm64.deb" in plan["new"]
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


def refused_key(tmp_path: Path, packages: Path, key: str | Path) -> Failure:
    with pytest.raises(Failure) as refused:
        publish(tmp_path / "repository", packages, key)
    assert not (tmp_path / "repository").exists()
    return refused.value


def test_a_key_that_others_may_read_is_refused(tmp_path: Path, packages: Path, keys: Keys) -> None:
    loose = keys.keyring.exported(keys.one, tmp_path / "key.asc")
    loose.chmod(0o640)
    failure = refused_key(tmp_path, packages, loose)
    assert (failure.code, f"chmod 600 {loose}" in str(failure)) == (Exit.USAGE, True)


def test_a_key_that_would_be_published_is_refused(repository: Path, packages: Path, keys: Keys) -> None:
    inside = keys.keyring.exported(keys.one, repository / "secret.asc")
    with pytest.raises(Failure, match="so that nobody publishes it"):
        publish(repository, packages, inside)


def test_a_public_key_cannot_sign(tmp_path: Path, packages: Path, keys: Keys) -> None:
    public = tmp_path / "public.asc"
    public.touch(0o600)
    public.write_text(keys.keyring.gpg("--armor", "--export", keys.one))
    failure = refused_key(tmp_path, packages, public)
    assert (failure.code, "0 secret keys in it" in str(failure)) == (Exit.BAD_DATA, True)


def test_an_expired_key_is_refused_by_name(tmp_path: Path, packages: Path, keys: Keys) -> None:
    old = keys.keyring.new("old", LONG_AGO, "1d")
    failure = refused_key(tmp_path, packages, old)
    assert (failure.code, f"{old} is expired" in str(failure)) == (Exit.BAD_DATA, True)


def test_a_key_with_a_passphrase_is_refused_in_a_file(tmp_path: Path, packages: Path, keys: Keys) -> None:
    locked = keys.keyring.new("locked", LONG_AGO, passphrase="secret")
    file = keys.keyring.exported(locked, tmp_path / "locked.asc", passphrase="secret")
    assert "accepted in a file: a key without a passphrase" in str(refused_key(tmp_path, packages, file))


def test_a_key_that_is_younger_than_the_date_cannot_sign(
    tmp_path: Path, packages: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(LONG_AGO - 86400))
    assert f"the key {keys.one} does not sign" in str(refused_key(tmp_path, packages, keys.one))


@pytest.mark.parametrize("key", ["0" * 40, "nowhere.asc"])
def test_a_key_that_is_not_there_is_named(tmp_path: Path, packages: Path, key: str) -> None:
    failure = refused_key(tmp_path, packages, key)
    assert (failure.code, f"--key {key}: " in str(failure)) == (Exit.NO_INPUT, True)


def test_what_is_no_package_is_refused_by_its_name(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs/letter.deb").write_text("Dear apt\n")
    failure = refused_key(tmp_path, tmp_path / "debs", keys.one)
    assert (failure.code, "letter.deb: no package" in str(failure)) == (Exit.BAD_DATA, True)


def test_a_package_for_no_release_that_we_know_is_refused(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "debs").mkdir()
    dummies.deb(tmp_path / "debs", "hr-all", "1.0-1", "all")
    failure = refused_key(tmp_path, tmp_path / "debs", keys.one)
    assert "version 1.0-1: accepted: one that ends in ~deb12, ~deb13, ~ubuntu24.04" in str(failure)


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
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == Exit.USAGE
    assert accepted in capsys.readouterr().err
