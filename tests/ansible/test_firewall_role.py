"""The firewall's role, as it is written: its rules are loaded, and there is a way back to those before."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.ansible.playbooks import (
    ANSIBLE,
    NOTHING,
    SHELL,
    every_task,
    holds,
    read,
    script,
    task_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("standing", "loaded", "loads"), [(0, 0, False), (0, 1, True), (1, 0, True), (1, 1, True)])
def test_a_firewall_that_was_written_and_not_loaded_is_loaded(standing: int, loaded: int, loads: bool) -> None:
    found = {each["name"]: each for each in every_task(read(ANSIBLE / "roles/firewall/tasks/main.yml"))}
    said = {
        "firewall_site": NOTHING,
        "ansible_check_mode": False,
        "firewall_standing": {"rc": standing},
        "firewall_loaded": {"rc": loaded},
    }

    assert holds(found["Load it with a way back"], **said) is loads
    assert holds(found["Keep the rules that stand, for the way back"], **said)


@pytest.mark.parametrize(("loads", "kept"), [(True, "loaded"), (False, "written")])
def test_the_way_back_is_to_what_was_loaded(loads: bool, kept: str, tmp_path: Path) -> None:
    """Also after a reboot, and beside files that somebody has changed; a unit of an earlier version kept nothing."""
    copy = task_of("firewall", "before", by=SHELL)[SHELL].replace(
        "{{ firewall_rules }}", "/etc/nftables.d/tributary-firewall.nft"
    )
    for place in ("/run/tributary-firewall-before", "/run/tributary-firewall/", "/etc/nftables.d"):
        copy = copy.replace(place, f"{tmp_path}/{place.partition('/')[2].partition('/')[2]}")
    for folder, text in {
        "tributary-firewall": "loaded",
        "nftables.d": "written",
        "tributary-firewall-before": "",
    }.items():
        if loads or text != "loaded":
            (tmp_path / folder).mkdir()
        for name in ("tributary-site.nft", "tributary-firewall.nft"):
            if (tmp_path / folder).is_dir() and text:
                (tmp_path / folder / name).write_text(text)
    subprocess.run(["sh", "-c", copy], check=True, stderr=subprocess.DEVNULL)
    assert {path.read_text() for path in (tmp_path / "tributary-firewall-before").iterdir()} == {kept}


def test_the_way_back_of_a_broken_off_run_is_in_nobodys_way(tmp_path: Path) -> None:
    """systemd-run takes no name of a unit that waits, or has failed."""
    first, second, *_ = read(ANSIBLE / "roles/firewall/tasks/load.yml")
    assert "systemd-run" in second["ansible.builtin.command"]["argv"]
    script(tmp_path / "systemctl", 'echo "$*" >>$0.log; exit 5\n')
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(first[SHELL], shell=True, check=False, env=environment)
    ends = ["reset-failed tributary-firewall-undo.service", "stop tributary-firewall-undo.timer"]
    assert (tmp_path / "systemctl.log").read_text().splitlines() == ends and first["failed_when"] is False


@pytest.mark.parametrize(
    ("stood", "done", "rules"),
    [
        (True, "nft --includepath now --file before/tributary-firewall.nft", "before"),
        (False, "systemctl disable --now tributary-firewall.service", "now"),
    ],
)
def test_rules_that_are_undone_do_not_come_back_with_a_boot(stood: bool, done: str, rules: str, tmp_path: Path) -> None:
    """And the next run takes those that stand for what was loaded."""
    places = {
        "/run/tributary-firewall-before": "before",
        "/run/tributary-firewall/": "loaded",
        "/etc/nftables.d": "now",
    }
    text = (ANSIBLE / "roles/firewall/files/undo.sh").read_text()
    for place, name in places.items():
        text = text.replace(place, name)
        (tmp_path / name).mkdir()
        (tmp_path / name / "tributary-site.nft").write_text("before" if name == "before" else "now")
    (tmp_path / ("before" if stood else "now") / "tributary-firewall.nft").touch()
    for program in ("nft", "systemctl"):
        script(tmp_path / program, 'echo "${0##*/}" "$@"\n')
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        ["sh", "-ec", text], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )
    assert said.stdout.strip() == done
    assert {(tmp_path / name / "tributary-site.nft").read_text() for name in ("now", "loaded")} == {rules}
