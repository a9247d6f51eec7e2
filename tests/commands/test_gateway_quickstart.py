"""What scripts/gateway-quickstart would do, and what it refuses before it does anything."""

import json
import os
import pwd
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.ansible.playbooks import needs_ansible, program
from tributary.paths import ROOT


def quickstart(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts/gateway-quickstart"), *words]
    clean = {key: value for key, value in os.environ.items() if key not in ("SSH_CONNECTION", "SUDO_USER")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=clean | environment)


def variables(*words: str, **environment: str) -> dict[str, object]:
    """What the playbook is told, whatever the inventory says."""
    done = quickstart("--dry-run", *words, **environment)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(shlex.split(done.stdout.splitlines()[-1])[-1])
    return told


def written(folder: Path, *words: str) -> Path:
    """The settings that the first run writes."""
    settings = folder / "settings.yml"
    _, text = quickstart("--dry-run", "--settings", str(settings), *words).stdout.split(f"/dev/stdin {settings}.new \n")
    settings.write_text(text[: text.rindex(f"mv {settings}.new ")])
    return settings


def inventory(settings: Path) -> dict[str, object]:
    """The variables of the machine, as the playbook gets them with ``settings``."""
    files = ["-i", str(ROOT / "ansible/inventory/routers.yml"), "-i", str(settings)]
    command = [str(Path(program()).with_name("ansible-inventory")), *files, "--host", "gw1.example.net"]
    told: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return told


def test_a_dry_run_prints_the_commands(tmp_path: Path) -> None:
    printed = quickstart("--dry-run", "--name", "gateway.example.net").stdout.splitlines()
    assert [re.split(r"[ /]", line)[-1 if "build" in line else 0] for line in printed][:2] == ["apt-get", "apt-get"]
    assert "/scripts/build-deb --output " in printed[3] and "ansible/inventory/routers.yml" in printed[-1]
    assert not any(
        "build-deb" in line for line in quickstart("--dry-run", "--packages", str(tmp_path)).stdout.splitlines()
    )


def test_the_playbook_is_told_how_routers_and_you_find_the_machine_your_key_and_packages(
    tmp_path: Path,
) -> None:
    told = variables("--name", "2001:db8::5", SSH_CONNECTION="203.0.113.9 50000 2001:db8::5 2222")
    assert told["tributary_ssh_port"] == 2222
    assert variables("--name", "gateway.example.net")["tributary_ssh_port"]
    for name, home in (("daemon", pwd.getpwnam("daemon").pw_dir), ("", "~")):
        told = variables("--name", "gateway.example.net", SUDO_USER=name)
        assert told["hardening_authorized_keys"] == f"{home}/.ssh/authorized_keys"
    assert variables("--name", "gateway.example.net", "--packages", str(tmp_path))["tributary_packages"] == str(
        tmp_path
    )


@needs_ansible
def test_the_first_run_writes_settings_that_count_more_than_the_example(tmp_path: Path) -> None:
    told = inventory(written(tmp_path, "--name", "2001:db8::5"))
    assert told["gateway_settings"] == {"name": "2001:db8::5"}
    assert told["tributary_admin_networks"] == ["0.0.0.0/0", "::/0"]
    assert told["tributary_parts"] == ["converter", "gateway", "console"]


def test_later_runs_leave_the_settings_as_they_are(tmp_path: Path) -> None:
    settings = written(tmp_path, "--name", "gateway.example.net")
    for words in ([], ["--name", "gateway.example.net"]):
        settings.write_text(settings.read_text().replace('"gateway.example.net"', "gateway.example.net # by hand"))
        printed = quickstart("--dry-run", "--settings", str(settings), *words).stdout
        assert "/dev/stdin" not in printed
        assert f"-i {settings} " in printed.splitlines()[-1]
    assert not {"gateway_settings", "tributary_admin_networks"} & variables("--settings", str(settings)).keys()
    done = quickstart("--dry-run", "--settings", str(settings), "--name", "other.example.net")
    assert (done.returncode, done.stdout) == (64, "")
    assert f"not the one in {settings}: change it there" in done.stderr


FLOW = """\
gateways:
  vars: {tributary_admin_networks: ["198.51.100.0/24"], 'gateway_settings': {port: 4000, "name": "gateway.example.net"}}
"""


def test_settings_in_braces_are_there_as_well(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yml"
    settings.write_text(FLOW)
    for words in ([], ["--name", "gateway.example.net"]):
        done = quickstart("--dry-run", "--settings", str(settings), *words)
        assert (done.returncode, done.stderr) == (0, "")
    assert quickstart("--dry-run", "--settings", str(settings), "--name", "gateway.example").returncode == 64
    settings.write_text(FLOW.replace("vars: {", "vars: {#"))
    assert f"{settings}: tributary_admin_networks is missing" in quickstart("--settings", str(settings)).stderr


@pytest.mark.parametrize("missing", ["tributary_admin_networks", "gateway_settings", "name"])
def test_the_example_never_stands_in_for_what_the_settings_lack(tmp_path: Path, missing: str) -> None:
    settings = written(tmp_path, "--name", "gateway.example.net")
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if f" {missing}:" not in line))
    done = quickstart("--dry-run", "--settings", str(settings))
    assert (done.returncode, done.stdout) == (65, "")
    assert f"{settings}: {missing} is missing" in done.stderr
    assert "remove the file to begin anew, with SSH open to the world" in done.stderr


def test_where_you_come_from_is_known_behind_sudo() -> None:
    """It takes SSH_CONNECTION out of the environment of what it runs, and the playbook's guard goes by that."""
    come = {"SSH_CONNECTION": "203.0.113.9 50000 198.51.100.5 2222"}
    command = f"env -u SSH_CONNECTION {ROOT / 'scripts/gateway-quickstart'} --dry-run --name gateway.example.net; true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env=os.environ | come)
    assert json.loads(shlex.split(done.stdout.splitlines()[-1])[-1])["tributary_ssh_port"] == 2222


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--name", "10.0.0.5"], 64, "routers do not find 10.0.0.5"),
        (["--name", "172.20.0.5"], 64, "routers do not find"),
        (["--name", "100.80.0.5"], 64, "routers do not find"),
        (["--name", 'a", "b'], 64, "accepted: a name or an address"),
        (["--name"], 64, "a value is missing"),
        (["--settings"], 64, "a value is missing"),
        (["--packages", "/none/such"], 66, "no such folder"),
        (["--nmae", "x"], 64, "accepted: --name HOST, --packages DIR, --settings FILE, --dry-run"),
    ],
)
def test_what_is_wrong_is_refused(words: list[str], code: int, complaint: str) -> None:
    done = quickstart("--dry-run", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
