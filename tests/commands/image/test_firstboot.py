"""The command on a system in a folder: systemctl and ssh-keygen are the real ones, as far as they are installed."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from image.firstboot.actions import MakeHostKeys
from image.firstboot.apply import System, keep_up
from tests.unit.image.firstboot.cards import HOME
from tests.unit.image.firstboot.systems import SHIPPED, YESCRYPT, make_system, public_key
from tributary.settings.errors import CommandError

needs_systemctl = pytest.mark.skipif(shutil.which("systemctl") is None, reason="needs systemctl")

CARD = f'hostname = "box"\nssh_keys = ["{public_key()}"]\nclient_networks = ["10.0.0.0/8"]\n'
WANTS = "etc/systemd/system/multi-user.target.wants"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_system(tmp_path / "root")


def firstboot(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "image.firstboot", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def boot(root: Path, card: str | None = None, *words: str) -> subprocess.CompletedProcess[str]:
    """Boot with ``card`` on the boot partition, or with what is there."""
    if card is not None:
        (root / "boot/firmware/tributary.toml").write_text(card)
    return firstboot("--root", root, *words)


def on_card(root: Path, name: str) -> str | None:
    path = root / f"boot/firmware/tributary-{name}.txt"
    return path.read_text() if path.exists() else None


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def enabled(root: Path) -> set[str]:
    return {path.name for path in (root / WANTS).glob("*")}


@needs_systemctl
def test_a_card_becomes_the_system_s_files_and_units(root: Path) -> None:
    done = boot(root, CARD)
    assert (done.returncode, done.stderr) == (0, "")
    assert (root / "etc/hostname").read_text() == "box\n"
    keys = root / "home/tributary/.ssh/authorized_keys"
    assert keys.read_text() == public_key() + "\n"
    assert (stat.S_IMODE(keys.stat().st_mode), keys.stat().st_uid) == (0o600, os.getuid())
    assert enabled(root) == {
        "ssh.service",
        "tributary-console.service",
        "tributary-converter.service",
        "tributary-doctor-fix.socket",
        "tributary-firewall.service",
        "tributary-squid.service",
        "tributary-throttler.service",
    }
    assert on_card(root, "errors") is None
    assert "This is box, a Tributary gateway." in str(on_card(root, "applied"))
    assert (root / "etc/issue.d/50-tributary.issue").exists()


@needs_systemctl
def test_a_card_that_was_applied_is_left_at_that(root: Path) -> None:
    boot(root, CARD)
    (root / "etc/tributary/squid.toml").write_text("# by hand\n")
    before = snapshot(root)
    done = boot(root)
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")
    assert snapshot(root) == before
    assert "squid.toml" in boot(root, None, "--again").stdout
    assert (root / "etc/tributary/squid.toml").read_text() != "# by hand\n"


@needs_systemctl
def test_a_card_that_was_edited_is_applied_and_takes_back_what_is_no_longer_asked_for(root: Path) -> None:
    wifi = '[wifi]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\ninterface = "wlan7"\n'
    boot(root, CARD + wifi)
    configuration = root / "etc/wpa_supplicant/wpa_supplicant-wlan7.conf"
    assert configuration.exists()
    assert "wpa_supplicant@wlan7.service" in enabled(root)
    assert boot(root, f'role = "router"\n{HOME}').returncode == 0
    assert not configuration.exists()
    assert not (root / "etc/tributary/squid.toml").exists()
    assert not (root / "home/tributary/.ssh/authorized_keys").exists()
    assert enabled(root) == {
        "tributary-router.service",
        "tributary-console.service",
        "tributary-converter.service",
        "tributary-doctor-fix.socket",
        "tributary-firewall.service",
        "tributary-lan.service",
        "dnsmasq.service",
        "systemd-resolved.service",
    }


@needs_systemctl
def test_a_wrong_card_changes_nothing_and_says_every_line(root: Path) -> None:
    boot(root, CARD)
    before = snapshot(root / "etc")
    done = boot(root, 'hostname = "A B"\nrole = "x"\n')
    assert done.returncode == 64
    told = str(on_card(root, "errors"))
    assert "What was applied before still holds." in told
    assert "  tributary.toml: role = 'x': accepted: 'gateway' or 'router'\n" in told
    assert "  tributary.toml: hostname = 'A B': accepted: " in told
    issue = "issue.d/50-tributary.issue"
    assert {**snapshot(root / "etc"), issue: b""} == {**before, issue: b""}
    assert told.splitlines()[2] in (root / "etc" / issue).read_text()


@needs_systemctl
def test_errors_go_when_the_card_is_right_again(root: Path) -> None:
    boot(root, "x = 1")
    assert "Nothing was set up." in str(on_card(root, "errors"))
    boot(root, CARD)
    assert on_card(root, "errors") is None
    boot(root, "x = 1")
    boot(root, CARD)
    assert on_card(root, "errors") is None
    assert "This is box" in (root / "etc/issue.d/50-tributary.issue").read_text()


def test_a_missing_card_is_named_and_one_with_a_wrong_name_too(root: Path) -> None:
    done = boot(root)
    assert done.returncode == 66
    assert "tributary.toml: cannot be read" in done.stderr
    (root / "boot/firmware/tributary.toml.txt").write_text(CARD)
    assert "tributary.toml.txt is there: rename it" in boot(root).stderr
    assert "rename it" in str(on_card(root, "errors"))


@needs_systemctl
def test_an_image_that_lacks_something_is_named_and_nothing_changes(root: Path) -> None:
    (root / "usr/lib/systemd/system/tributary-squid.service").unlink()
    done = boot(root, CARD)
    assert done.returncode == 69
    assert "tributary-squid.service is not on this image" in str(on_card(root, "errors"))
    assert not (root / "etc/hostname").exists()


@needs_systemctl
def test_a_unit_that_cannot_be_enabled_takes_all_files_back(root: Path) -> None:
    (root / "usr/lib/systemd/system/ssh.service").write_text("[Install]\nWantedBy=stuck.target\n")
    (root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
    (root / "etc/systemd/system/stuck.target.wants").write_text("a file where systemctl needs a folder")
    before = snapshot(root / "etc")
    done = boot(root, CARD)
    assert done.returncode == 71
    assert "systemctl" in str(on_card(root, "errors"))
    new = set(snapshot(root / "etc")) - set(before) - {".pwd.lock", "issue.d/50-tributary.issue"}
    assert {name for name in new if not name.startswith("systemd/system/")} == set()


@needs_systemctl
def test_a_dry_run_shows_the_plan_and_changes_nothing(root: Path) -> None:
    (root / "boot/firmware/tributary.toml").write_text(CARD + f'password_hash = "{YESCRYPT}"\n')
    before = snapshot(root)
    shown = boot(root, None, "--dry-run")
    assert shown.returncode == 0
    assert "write /etc/hostname (mode 0644, owner 0:0)\n    box\n" in shown.stdout
    assert "enable tributary-squid.service" in shown.stdout
    changes = json.loads(boot(root, None, "--dry-run", "--json").stdout)["changes"]
    assert {"action": "EnableUnit", "unit": "tributary-squid.service", "gently": False, "reads": []} in changes
    assert not any(public_key() in str(each) or YESCRYPT in str(each) for each in (shown.stdout, *changes))
    assert snapshot(root) == before


def test_check_says_valid_or_every_line_that_is_wrong(tmp_path: Path) -> None:
    assert firstboot("--check", SHIPPED).stdout == "valid, for a gateway\n"
    assert json.loads(firstboot("--check", SHIPPED, "--role", "router", "--json").stdout) == {
        "valid": True,
        "role": "router",
        "errors": [],
        "notes": [],
    }
    wireless = tmp_path / "wireless.toml"
    wireless.write_text(HOME)
    done = firstboot("--check", wireless, "--role", "router")
    assert (done.returncode, done.stdout.partition("\n")[0]) == (0, "valid, for a router")
    assert "wan.dsl joins no network: add [wifi] for wlan0" in done.stdout
    assert len(json.loads(firstboot("--check", wireless, "--role", "router", "--json").stdout)["notes"]) == 1
    wrong = tmp_path / "card.toml"
    wrong.write_text('hostname = "A"\nx = 1\n')
    done = firstboot("--check", wrong)
    assert (done.returncode, done.stdout) == (64, "")
    assert [line.split(" = ")[0] for line in done.stderr.splitlines()] == [f"{wrong}: hostname", f"{wrong}: x"]
    assert len(json.loads(firstboot("--check", wrong, "--json").stdout)["errors"]) == 2
    assert firstboot("--check", tmp_path / "none").returncode == 66


@needs_systemctl
def test_json_says_what_was_done(root: Path) -> None:
    done = json.loads(boot(root, CARD, "--json").stdout)
    assert "hostname box" in done["applied"]
    assert json.loads(boot(root, "x = 1", "--json").stdout) == {
        "applied": [],
        "errors": [str(on_card(root, "errors")).splitlines()[-1].strip()],
    }


@needs_systemctl
def test_the_report_adds_addresses_to_what_was_applied(root: Path) -> None:
    boot(root, CARD)
    assert firstboot("--root", root, "--report").returncode == 0
    told = str(on_card(root, "applied"))
    assert told.startswith("This is box, a Tributary gateway.\n")
    (root / "boot/firmware/tributary.toml").write_text('hostname = "other"\n')
    firstboot("--root", root, "--report")
    assert on_card(root, "applied") == told


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_host_keys_are_made_below_the_root(root: Path) -> None:
    (root / "etc/ssh").mkdir()
    keep_up(MakeHostKeys(), System(root, running=False))
    assert {path.name for path in (root / "etc/ssh").glob("*_key")} >= {"ssh_host_ed25519_key"}


def test_a_tool_that_is_missing_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(CommandError, match="ssh-keygen is missing"):
        keep_up(MakeHostKeys(), System(root, running=False))


def test_help_names_every_key() -> None:
    shown = firstboot("--help").stdout
    keys = ("ssh_keys", "wifi.passphrase", "network.NAME.gateway", "wan.NAME.mac", "lan.dhcp_range")
    assert all(f"  {key}: " in shown for key in keys)
    assert firstboot("--check", "x", "--dry-run").returncode == 64
