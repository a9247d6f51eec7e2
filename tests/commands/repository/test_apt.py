"""The real apt, in its own root, takes a repository of dummy packages, and refuses it once anything was changed."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.repository.machine import LONG_AGO, SUITE, Apt, Keys, publish, sources_of
from tests.debs import dummies


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
    assert apt.get("download", "dummy-native").returncode == 0
    pool = sources.parents[2] / "pool" / SUITE
    (downloaded,) = apt.root.glob("*.deb")
    assert downloaded.read_bytes() == next(pool.glob("dummy-native_*_amd64.deb")).read_bytes()
    would = apt.get("install", "--simulate", *dummies.NAMES).stdout
    assert {line for line in would.splitlines() if line.startswith("Inst ")} == {
        "Inst dummy-native (1.0-1~deb13 Tributary:trixie [amd64])",
        "Inst dummy-all (1.0-1~deb13 Tributary:trixie [all])",
    }


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
    (package,) = (repository / "pool" / SUITE).glob("dummy-native_*_amd64.deb")
    package.write_bytes(package.read_bytes()[:-1] + b"x")
    refused = apt.get("download", "dummy-native")
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
