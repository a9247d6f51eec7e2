"""What scripts/gateway-quickstart would do, and what it refuses before it does anything."""

import json
import os
import pwd
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tributary.paths import ROOT


def quickstart(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts/gateway-quickstart"), *words]
    clean = {key: value for key, value in os.environ.items() if key not in ("SSH_CONNECTION", "SUDO_USER")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=clean | environment)


def variables(*words: str, **environment: str) -> dict[str, object]:
    """What the playbook is told."""
    done = quickstart("--dry-run", *words, **environment)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(shlex.split(done.stdout.splitlines()[-1])[-1])
    return told


def test_a_dry_run_prints_the_commands(tmp_path: Path) -> None:
    printed = quickstart("--dry-run", "--name", "gateway.example.net").stdout.splitlines()
    assert [re.split(r"[ /]", line)[-1 if "build" in line else 0] for line in printed][:2] == ["apt-get", "apt-get"]
    assert "/scripts/build-deb --output " in printed[3] and "ansible/inventory/routers.yml" in printed[-1]
    assert not any(
        "build-deb" in line for line in quickstart("--dry-run", "--packages", str(tmp_path)).stdout.splitlines()
    )


def test_the_playbook_is_told_how_routers_find_the_machine_and_how_you_do() -> None:
    told = variables("--name", "2001:db8::5", SSH_CONNECTION="203.0.113.9 50000 2001:db8::5 2222")
    assert told["gateway_settings"] == {"name": "2001:db8::5"}
    assert told["tributary_ssh_port"] == 2222
    assert told["tributary_admin_networks"] == ["0.0.0.0/0", "::/0"]
    assert variables("--name", "gateway.example.net")["tributary_ssh_port"]


def test_the_key_that_counts_is_that_of_whoever_logged_in() -> None:
    for name, home in (("daemon", pwd.getpwnam("daemon").pw_dir), ("", "~")):
        told = variables("--name", "gateway.example.net", SUDO_USER=name)
        assert told["hardening_authorized_keys"] == f"{home}/.ssh/authorized_keys"


def test_packages_made_elsewhere_are_taken_from_there(tmp_path: Path) -> None:
    assert variables("--name", "gateway.example.net", "--packages", str(tmp_path))["tributary_packages"] == str(
        tmp_path
    )


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--name", "10.0.0.5"], 64, "routers do not find 10.0.0.5"),
        (["--name", "172.20.0.5"], 64, "routers do not find"),
        (["--name", "100.80.0.5"], 64, "routers do not find"),
        (["--name", 'a", "b'], 64, "accepted: a name or an address"),
        (["--name"], 64, "a value is missing"),
        (["--packages", "/none/such"], 66, "no such folder"),
        (["--nmae", "x"], 64, "accepted: --name HOST, --packages DIR, --dry-run"),
    ],
)
def test_what_is_wrong_is_refused(words: list[str], code: int, complaint: str) -> None:
    done = quickstart("--dry-run", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
