"""The settings that the packages bring, judged by those who read them; tests/unit/test_unit_files.py has the units."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from debs import parts, render
from gateway.settings import GatewaySettings
from router.settings import RouterSettings
from squid.settings import SquidSettings
from tests.unit.debs.sample import inputs, release
from throttler import dry_run
from throttler.policy import model
from tributary.paths import ROOT
from tributary.settings.files import load

FILES = ROOT / "debs/files"


def test_debians_squid_stays_down_while_ours_is_installed() -> None:
    drop_in = (ROOT / "squid/systemd/squid.service.d/tributary.conf").read_text()
    assert "\nConditionPathExists=!/usr/bin/tributary-squid\n" in drop_in


def test_the_settings_that_come_installed_serve_this_machine_alone_and_take_different_ports() -> None:
    settings = load(FILES / "squid.toml", SquidSettings)
    assert settings.listeners == ["127.0.0.1:3128", "[::1]:3128"]
    text = (FILES / "converter.toml").read_text()
    listening = re.findall(r'^address = "(.*)"$', text, re.MULTILINE)
    assert listening == ["127.0.0.1:3129"]
    assert load(FILES / "squid.toml", SquidSettings).port == 3128


def test_the_policy_that_comes_installed_throttles_nothing() -> None:
    shown = dry_run.text(model.read(FILES / "throttler.toml"))
    assert "## Rule nothing-yet throttles nothing" in shown
    assert "qdisc" not in shown


def test_the_home_router_that_comes_installed_has_no_link_and_the_gateway_is_nobodys() -> None:
    links = load(FILES / "router.toml", RouterSettings).wan
    assert [link.interface for link in links.values()] == ["none-yet-1", "none-yet-2"]
    assert load(FILES / "gateway.toml", GatewaySettings) == GatewaySettings(name="gateway.example.net")


@pytest.mark.parametrize("unit", ["tributary-firstboot", "tributary-firstboot-report"])
def test_the_first_boot_is_for_images_alone(unit: str) -> None:
    text = (ROOT / f"image/firstboot/{unit}.service").read_text()
    assert "\nConditionPathExists=/usr/lib/tributary/role\n" in text


@pytest.mark.parametrize("part", ["switch", "backend", "overlay"])
def test_a_program_whose_addresses_only_its_operator_knows_comes_without(part: str) -> None:
    lines = (FILES / f"{part}.conf").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == ['OPTIONS=""']


def test_the_converter_takes_the_configuration_that_comes_installed(converter_accepts: Callable[[Path], None]) -> None:
    converter_accepts(FILES / "converter.toml")


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="no logrotate")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: logrotate becomes the user whose logs they are")
@pytest.mark.parametrize("name", ["tributary-converter", "tributary-squid"])
def test_logrotate_takes_its_file(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    copy.write_text((FILES / f"{name}.logrotate").read_text())
    copy.chmod(0o644)
    command = ["logrotate", "--debug", "--verbose", str(copy)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (shown.returncode, "error" in shown.stderr) == (0, False), shown.stderr
    days = {"tributary-converter": 56, "tributary-squid": 7}[name]
    assert re.search(rf"after 1 days .*\({days} rotations\)", shown.stderr)


@pytest.mark.parametrize(
    ("state", "active", "starts"),
    [("enabled", False, True), ("enabled", True, False), ("disabled", False, False), ("static", False, False)],
)
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("common", "firewall.service"),
        ("handoff", "backend.service"),
        ("gateway", "gateway.service"),
        ("router", "router.service"),
    ],
)
def test_what_is_enabled_runs_again_when_its_package_is_installed_again(
    name: str, unit: str, state: str, active: bool, starts: bool, tmp_path: Path
) -> None:
    """Its removal has ended it; one that runs is not started, and one that nobody has enabled stays down."""
    found = {each.name: each for each in parts.packages(inputs(release("trixie", "amd64")))}
    *_, script = render.script(found[f"tributary-{name}"], "postinst").partition("|| exit 0\n")
    answers = f'*is-enabled\\ *) echo {state} ;;\n"--quiet is-active "*) exit {int(not active)} ;;'
    programs = {"deb-systemd-invoke": 'echo "$*" >>$0.log', "systemctl": f'case "$*" in\n{answers}\nesac'}
    for program, acts in programs.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{acts}\n")
        (tmp_path / program).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", script], check=True, env=environment)
    log = tmp_path / "deb-systemd-invoke.log"
    assert (f"start tributary-{unit}" in (log.read_text().splitlines() if log.exists() else [])) is starts
