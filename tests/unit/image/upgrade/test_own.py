"""What goes along from one slot into another."""

import errno
import os
from hashlib import md5
from pathlib import Path

import pytest

from image.firstboot.actions import WriteFile
from image.firstboot.memory import PLACE, Memory
from image.upgrade.own import Trial, carry
from tests.unit.image.miniature import put
from tributary.settings.errors import CommandError


def accounts(root: Path, user: int, group: int) -> None:
    put(root, "etc/passwd", f"root:x:0:0::/root:/bin/bash\n\nada:x:{user}:{group}::/home/ada:/bin/bash\n")
    put(root, "etc/group", f"root:x:0:\nada:x:{group}:\n")


def test_a_box_keeps_who_it_is_and_what_no_card_says(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for root in (old, new):
        accounts(root, os.geteuid(), os.getegid())
    put(old, "etc/machine-id", "0123\n", 0o444)
    put(old, "etc/ssh/ssh_host_ed25519_key", "secret", 0o600)
    put(old, "etc/ssh/sshd_config", "of the old version")
    put(old, "etc/tributary/throttler.toml", "by hand")
    put(old, "etc/tributary/keys/one.key", "by hand", 0o600)
    (old / "etc/tributary/keys").chmod(0o2750)
    put(old, "etc/tributary/router.toml", "by the card")
    put(old, str(PLACE), Memory.after("x", [WriteFile("/etc/tributary/router.toml", "")]).text())
    put(new, "etc/machine-id", "")
    put(new, "etc/tributary/throttler.toml", "as packaged")
    carried = carry(old, new)
    assert [str(name) for name in carried] == [
        "etc/machine-id",
        "etc/ssh/ssh_host_ed25519_key",
        "etc/tributary/keys/one.key",
        "etc/tributary/throttler.toml",
    ]
    for name in (*carried, Path("etc/tributary/keys")):
        assert (new / name).stat().st_mode == (old / name).stat().st_mode
    for name in carried:
        assert (new / name).read_text() == (old / name).read_text()
    assert not (new / "etc/ssh/sshd_config").exists()
    assert not (new / "etc/tributary/router.toml").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_owner_and_group_go_along_by_name(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    accounts(old, 1000, 990)
    put(old, "etc/group", "root:x:0:\nada:x:990:\nanother:x:990:\ngone:x:995:\n")
    accounts(new, 1001, 991)
    put(new, "etc/group", "root:x:0:\nada:x:991:\nstranger:x:990:\nother-stranger:x:995:\n")
    for name, group in {"console.toml": 990, "router.toml": 995, "squid.toml": 0, "mine.toml": 77}.items():
        put(old, f"etc/tributary/{name}", "by hand", 0o640)
        os.chown(old / "etc/tributary" / name, 1000 if group else 0, group)
    put(old, "etc/tributary/keys/one.key", "by hand")
    os.chown(old / "etc/tributary/keys", 0, 990)
    carry(old, new)
    found = {path.name: path.stat() for path in (new / "etc/tributary").iterdir()}
    assert {name: (each.st_uid, each.st_gid) for name, each in found.items()} == {
        "console.toml": (1001, 991), "router.toml": (1001, 0), "squid.toml": (0, 0), "mine.toml": (1001, 0),
        "keys": (0, 991),
    }  # fmt: skip


def test_a_slot_is_on_trial_until_it_passed_or_says_why_not(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    assert (trial.on, trial.reason) == (False, "")
    trial.passed()  # a system that nobody put on trial
    trial.begin()
    assert trial.on
    trial.failed("bad: tributary-squid.service")
    assert trial.reason == "bad: tributary-squid.service"
    trial.passed()
    assert not trial.on


def test_a_setting_as_its_package_brought_it_stays_behind(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for root in (source, target):
        accounts(root, os.geteuid(), os.getegid())
    for name, text in (("throttler.toml", "as it came\n"), ("squid.toml", "changed\n"), ("routers.toml", "mine\n")):
        put(source, f"etc/tributary/{name}", text)
    came = {name: md5(b"as it came\n").hexdigest() for name in ("throttler.toml", "squid.toml")}
    lines = "".join(f" /etc/tributary/{name} {digest}\n" for name, digest in came.items())
    put(source, "var/lib/dpkg/status", f"Package: tributary-throttler\nConffiles:\n{lines}Version: 1\n")
    assert {path.name for path in carry(source, target)} == {"squid.toml", "routers.toml"}
    assert not (target / "etc/tributary/throttler.toml").exists()


def test_a_full_slot_is_named_and_not_what_was_to_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    accounts(source, os.geteuid(), os.getegid())
    accounts(target, os.geteuid(), os.getegid())
    put(source, "etc/machine-id", "1")

    def full(copied: Path, to: Path) -> None:
        # As shutil's fast copy does (_fastcopy_sendfile).
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), copied, None, to)

    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(CommandError, match=f"^{target}/etc/machine-id: cannot be written: No space left on device$"):
        carry(source, target)
