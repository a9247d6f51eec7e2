"""Secrets that are planted in settings, cards and keys' files: no command prints them, whatever is wrong."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.testbed import native
from tests.unit.tributary.test_secrets import CARDS, GOOD, PASSWORD, SECRET, WRONG
from tributary import cargo

PLANTED = (SECRET[2:-3], PASSWORD)
CONVERTER = '[[listen]]\nname = "s"\nkind = "socks5"\naddress = "127.0.0.1:1080"\n'
CONVERTERS = {
    "a key that there is not": f'users = {{ anna = "{PASSWORD}" }}\nfoo = 1\n',
    "users called otherwise": f'user = {{ anna = "{PASSWORD}" }}\n',
    "a password alone": f'users = "{PASSWORD}"\n',
    "a list": f'users = ["{PASSWORD}"]\n',
    "a user twice": f'users = {{ anna = "{PASSWORD}", anna = "{PASSWORD}" }}\n',
    "a text without its end": f'users = {{ anna = "{PASSWORD} }}\n',
    "a password that is too long": f'users = {{ anna = "{PASSWORD * 40}" }}\n',
    "an empty name": f'users = {{ "" = "{PASSWORD}" }}\n',
}


def printed(*command: str | Path, given: str | None = None) -> str:
    """All that a command says, of both streams; it must not take long."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    said = done.stdout + done.stderr
    assert said.strip(), f"{command} says nothing"
    return said


def python(part: str, *words: str | Path) -> str:
    return printed(sys.executable, "-m", part, *words)


def without_planted(said: str) -> str:
    for secret in PLANTED:
        assert secret not in said, said
    return said


def private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.mark.parametrize("words", ["check", "plan", "run", "run --dry-run", "run --log json"])
@pytest.mark.parametrize("what", ["an option that needs another", "a mistyped key's name", "the secret one sign short"])
def test_the_home_routers_daemon(what: str, words: str, tmp_path: Path) -> None:
    file = private(tmp_path / "router.toml", WRONG[what])
    assert "accepted" in without_planted(python("router", *words.split(), file))


def test_the_home_routers_daemon_when_all_is_right(tmp_path: Path) -> None:
    without_planted(python("router", "check", private(tmp_path / "router.toml", GOOD)))


@pytest.mark.parametrize("what", CARDS)
def test_the_first_boot(what: str, tmp_path: Path) -> None:
    file = tmp_path / "tributary.toml"
    file.write_text(CARDS[what])
    assert "accepted" in without_planted(python("image.firstboot", "--check", file))


@pytest.mark.parametrize("what", CONVERTERS)
def test_the_converter(what: str, tmp_path: Path) -> None:
    converter = native.build().converter
    file = private(tmp_path / "converter.toml", CONVERTER + CONVERTERS[what])
    without_planted(printed(converter, "--config", file, "--check"))


@pytest.mark.parametrize("number", ['"one"', "99999999"])
def test_the_gateway(number: str, tmp_path: Path) -> None:
    settings = tmp_path / "gateway.toml"
    settings.write_text('name = "gateway.example.net"\n')
    private(tmp_path / "private.key", f"{SECRET}\n")
    (tmp_path / "routers").mkdir()
    (tmp_path / "routers/smith.toml").write_text(
        f'number = {number}\nkeys = ["{SECRET}"]\nenrolled = 2026-01-01T00:00:00Z\n'
    )
    common = ("--settings", settings, "--state-directory", tmp_path)
    without_planted(python("gateway", "check", *common))
    if os.geteuid() == 0:
        without_planted(python("gateway", "plan", *common))
        for words in (["routers"], ["revoke", "jones"], ["rotate", "--dry-run", "smith"]):
            without_planted(python("command", *words, *map(str, common)))


@pytest.mark.parametrize("role", ["back-end", "overlay"])
def test_programs_whose_key_is_damaged(role: str, tmp_path: Path) -> None:
    key = base64.b64encode(b"key" * 30).decode()
    for name in ("node.pem", "ca.pem", "node.key", "node-key.pem"):
        private(tmp_path / name, f"-----BEGIN PRIVATE KEY-----\n{SECRET}{key}\n-----END PRIVATE KEY-----\n")
    if role == "back-end":
        said = printed(
            native.hand_off().back_end,
            *f"--fronts 127.0.0.1:1 --hand-off 127.0.0.1:1 --identity {tmp_path} --objects /".split(),
        )
    else:
        said = printed(cargo.build("tributary-overlay")[0], "status", "--identity", str(tmp_path))
    assert key not in without_planted(said)
