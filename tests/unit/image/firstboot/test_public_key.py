"""OpenSSH public keys: which lines are accepted."""

import base64
import shutil
import string as characters
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from image.firstboot.public_key import checked
from tests.unit.image.firstboot.systems import public_key, string

KEYS = {
    "ssh-ed25519": (bytes(32),),
    "ssh-rsa": (b"\x01\x00\x01", bytes(range(1, 256))),
    "ecdsa-sha2-nistp256": (b"nistp256", b"\x04" + bytes(64)),
    "sk-ssh-ed25519@openssh.com": (bytes(32), b"ssh:"),
    "sk-ecdsa-sha2-nistp256@openssh.com": (b"nistp256", b"\x04" + bytes(64), b"ssh:"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_each_kind_is_accepted_with_and_without_a_comment(kind: str) -> None:
    assert checked(public_key(kind, *KEYS[kind])) == public_key(kind, *KEYS[kind])
    line = public_key(kind, *KEYS[kind], comment="somebody at a laptop")
    assert checked(f"  {line}\n") == line


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_what_ssh_keygen_makes_is_accepted(kind: str, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / "key"], check=True)
    line = (tmp_path / "key.pub").read_text()
    assert checked(line) == line.strip()


@pytest.mark.parametrize(
    "value",
    [
        *("", "ssh-ed25519", 5, None, "-----BEGIN OPENSSH PRIVATE KEY-----"),
        public_key("ssh-dss", b"1", b"2", b"3", b"4"),
        f"ssh-rsa {public_key().split()[1]}",
        f'from="10.0.0.1" {public_key()}',
        f"{public_key()}\n{public_key()}",
        public_key("ssh-ed25519", bytes(32), b"more"),
        public_key("ssh-rsa", b"\x01\x00\x01"),
        "ssh-ed25519 " + base64.b64encode(string(b"ssh-ed25519") + string(b"")).decode(),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_such_key_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="OpenSSH public keys"):
        checked(value)


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_that_was_cut_off_anywhere_is_refused(kind: str) -> None:
    line = public_key(kind, *KEYS[kind])
    accepted = []
    for end in range(len(line)):
        try:
            accepted.append(checked(line[:end]))
        except ValueError:
            continue
    # Without its padding it is no Base64; whole groups less are a string that ends too early.
    assert accepted == []


@given(st.sampled_from(sorted(KEYS)), st.binary(max_size=200))
def test_any_other_bytes_behind_a_type_are_refused_unless_they_are_such_a_key(kind: str, blob: bytes) -> None:
    line = f"{kind} {base64.b64encode(blob).decode()}"
    begins = string(kind.encode())
    if not blob.startswith(begins):
        with pytest.raises(ValueError, match="OpenSSH"):
            checked(line)


@given(st.sampled_from(sorted(KEYS)), st.data())
def test_every_key_with_its_strings_is_accepted(kind: str, data: st.DataObject) -> None:
    parts = [data.draw(st.binary(min_size=1, max_size=600)) for _ in KEYS[kind]]
    comment = data.draw(st.text(characters.ascii_letters + characters.digits + "@.- ", max_size=30)).strip()
    line = public_key(kind, *parts, comment=comment)
    assert checked(line) == line


@given(st.text())
@example("ssh-ed25519 \x00")
def test_any_text_is_either_one_line_that_stays_as_it_is_or_refused(text: str) -> None:
    try:
        line = checked(text)
    except ValueError:
        return
    assert "\n" not in line
    assert checked(line) == line
