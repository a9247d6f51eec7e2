"""What the roles write for the example inventories, judged by the programs that will read it.

To make the golden files anew after a wanted change: REMAKE_GOLDEN=1 scripts/python -m pytest tests/ansible
"""

import os
import re
import shutil
import subprocess
import tomllib
from itertools import product
from pathlib import Path

import jinja2
import pytest

from console import settings as console
from experiments.home.gateway import FIREWALL
from experiments.testbed import native
from gateway.settings import GatewaySettings
from squid.settings import SquidSettings
from tests import golden
from tests.ansible.conftest import Rendered
from tests.ansible.playbooks import ANSIBLE, HERE, INVENTORIES, needs_ansible
from tests.unit.image.miniature import files
from tests.unit.test_unit_files import analyze, systemd_analyze
from throttler import dry_run
from throttler.policy import model
from tributary.paths import ROOT
from tributary.settings.errors import Exit
from tributary.settings.files import load
from tributary.wireguard.addresses import gateway

# The first to ask renders for all.
pytestmark = [needs_ansible, pytest.mark.slow, pytest.mark.timeout(1200)]
GOLDEN = HERE / "golden"
every_inventory = pytest.mark.parametrize("inventory", INVENTORIES)


@pytest.mark.parametrize(
    ("inventory", "file"),
    [
        *product(("one", "fleet"), ["tributary-site.nft", "converter.toml", "squid.toml", "throttler.toml"]),
        ("fleet", "bird.conf"),
        ("one", "overlay.conf"),
        *product(("routers",), ["gateway.toml", "console.toml", "tributary-site.nft"]),
        ("handoff", "converter.toml"),
        ("handoff", "../sw1.example.net/switch.conf"),
        ("handoff", "../a.example.net/backend.conf"),
        ("handoff", "../b.example.net/backend.conf"),
    ],
)
def test_a_file_is_the_golden_one(rendered: Rendered, inventory: str, file: str) -> None:
    golden.compare(GOLDEN / inventory / file.removeprefix("../"), (rendered[inventory] / file).read_text())


@every_inventory
def test_squid_takes_its_settings(rendered: Rendered, inventory: str) -> None:
    settings = load(rendered[inventory] / "squid.toml", SquidSettings)
    assert settings.port == 3128
    assert settings.state_directory == Path("/var/lib/tributary/squid")


@every_inventory
def test_the_console_takes_its_settings(rendered: Rendered, inventory: str) -> None:
    assert console.read(rendered[inventory] / "console.toml") == console.ConsoleSettings()


def test_the_gateway_takes_its_settings_and_opens_what_the_converter_listens_at(rendered: Rendered) -> None:
    settings = load(rendered["routers"] / "gateway.toml", GatewaySettings)
    (listener,) = tomllib.loads((rendered["routers"] / "converter.toml").read_text())["listen"]
    assert listener["address"] == f"{gateway(settings.network)}:{settings.converter_ports[0]}"


@pytest.mark.parametrize(("inventory", "line"), [("routers", "tunnel_ports { 51840 }"), ("one", "notrack")])
def test_a_tunnels_port_is_open_and_its_connections_are_tracked(rendered: Rendered, inventory: str, line: str) -> None:
    site = (rendered[inventory] / "tributary-site.nft").read_text()
    assert line in site
    assert ("tunnel_ports" in site) is not ("notrack" in site)


@every_inventory
def test_the_converter_takes_its_settings(rendered: Rendered, inventory: str) -> None:
    command = [str(native.build().converter), "--check", "--config", str(rendered[inventory] / "converter.toml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize(("host", "unit"), [("sw1", "switch"), ("a", "backend"), ("b", "backend")])
def test_a_hand_offs_program_takes_its_arguments(rendered: Rendered, host: str, unit: str) -> None:
    """It goes on to look for its certificate, or for capabilities."""
    programs = native.hand_off()
    text = (rendered["handoff"].parent / f"{host}.example.net/{unit}.conf").read_text()
    (options,) = re.findall(r'^OPTIONS="(.*)"$', text, re.MULTILINE)
    command = [str(programs.switch if unit == "switch" else programs.back_end), *options.split()]
    done = subprocess.run([*command, "--identity", "/nowhere"], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode in (Exit.NO_INPUT, Exit.NO_PERMISSION), done.stderr


@every_inventory
def test_the_throttler_takes_its_policy(rendered: Rendered, inventory: str) -> None:
    assert dry_run.text(model.read(rendered[inventory] / "throttler.toml"))


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="needs nft and root")
@every_inventory
def test_nft_takes_the_firewall(rendered: Rendered, inventory: str) -> None:
    subprocess.run(["nft", "-I", rendered[inventory], "--check", "--file", FIREWALL], check=True)


@pytest.mark.skipif(not shutil.which("bird"), reason="bird2 is not installed")
def test_bird_takes_its_settings(rendered: Rendered) -> None:
    subprocess.run(["bird", "-p", "-c", rendered["fleet"] / "bird.conf"], check=True)


@every_inventory
def test_nobody_is_let_in_who_was_not_named(rendered: Rendered, inventory: str) -> None:
    assert "0.0.0.0/0" not in (rendered[inventory] / "tributary-site.nft").read_text()
    assert "::/0" not in (rendered[inventory] / "tributary-site.nft").read_text()


def test_the_ports_that_are_open_are_those_where_something_listens(rendered: Rendered) -> None:
    converter = tomllib.loads((rendered["one"] / "converter.toml").read_text())
    squid = tomllib.loads((rendered["one"] / "squid.toml").read_text())
    ports = {squid["port"], *(int(each["address"].rpartition(":")[2]) for each in converter["listen"])}
    line = next(
        each for each in (rendered["one"] / "tributary-site.nft").read_text().splitlines() if " client_ports " in each
    )
    assert {int(port) for port in line.partition("{")[2].strip(" }").split(",")} == ports


def test_squids_exporter_reads_the_port_for_counters_and_is_not_squids_user(rendered: Rendered) -> None:
    squid = load(rendered["one"] / "squid.toml", SquidSettings)
    lines = (rendered["one"] / "metrics-squid.conf").read_text().splitlines()
    assert f" -squid-hostname 127.0.0.1 -squid-port {squid.counters_port}" in "\n".join(lines)
    assert lines[lines.index("User=") + 1] == "DynamicUser=yes"


@pytest.mark.parametrize(("networks", "options"), [(0, ""), (20, "--clients 20 --networks")])
def test_the_accounts_have_figures_of_as_many_networks_as_are_asked_for(networks: int, options: str) -> None:
    template = (ANSIBLE / "roles/metrics/templates/accounts.conf.j2").read_text()
    lines = jinja2.Template(template).render(metrics_accounts_networks=networks).splitlines()
    assert lines[-1] == f'Environment="OPTIONS={options}"'


def test_the_throttlers_metrics_are_where_the_inventory_says(rendered: Rendered) -> None:
    lines = (rendered["one"] / "throttler-tributary.conf").read_text().splitlines()
    assert lines[-1] == 'Environment="OPTIONS=--source kernel --log text --metrics [::]:9464"'
    assert " $OPTIONS\n" in (ROOT / "throttler/systemd/tributary-throttler.service").read_text()


every_unit = pytest.mark.parametrize(
    "unit",
    [
        "anycast-tributary-anycast-addresses.service",
        "anycast-tributary-anycast.service",
    ],
)


@systemd_analyze
@every_unit
def test_the_exposure_of_a_unit_is_low(rendered: Rendered, unit: str) -> None:
    said = analyze("security", "--offline=true", str(rendered["fleet"] / unit))
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", said.stdout)
    assert found is not None, said.stderr
    assert float(found[1]) < 3


@systemd_analyze
@every_unit
def test_systemd_accepts_every_line_of_a_unit(rendered: Rendered, unit: str, tmp_path: Path) -> None:
    copy = tmp_path / unit
    # Programs and units of packages that a developer's machine does not have.
    text = (rendered["fleet"] / unit).read_text().replace("/usr/local/sbin/tributary-anycast", "/bin/true")
    copy.write_text(text.replace("Requires=bird.service\n", ""))
    done = analyze("verify", "--man=no", str(copy))
    assert done.returncode == 0, done.stderr
    assert unit not in done.stderr


def test_apt_takes_security_updates_and_what_the_operator_adds_in_any_file(rendered: Rendered, tmp_path: Path) -> None:
    (parts := tmp_path / "apt.conf.d").mkdir()
    shutil.copy(rendered["one"] / "hardening-50unattended-upgrades", parts / "50unattended-upgrades")
    for name in ("20mine", "99mine"):
        (parts / name).write_text(f'Unattended-Upgrade::Origins-Pattern:: "origin={name}";\n')
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::parts "{parts}";\n')
    command = ["apt-config", "dump", "Unattended-Upgrade::Origins-Pattern"]
    environment = os.environ | {"APT_CONFIG": str(tmp_path / "apt.conf")}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    origins = [line.partition(" ")[2].strip('";') for line in said.splitlines() if ":: " in line]
    assert {"origin=20mine", "origin=99mine"} <= set(origins)
    assert all("-security" in origin for origin in origins if "mine" not in origin)
    assert len(origins) == 4


def test_an_image_installs_security_updates_as_the_first_gateway_does(rendered: Rendered) -> None:
    of_image = files("x86")["/etc/apt/apt.conf.d/50unattended-upgrades"]
    assert of_image == (rendered["one"] / "hardening-50unattended-upgrades").read_text()


def test_prometheus_and_grafana_find_their_files(rendered: Rendered) -> None:
    host, files = rendered["fleet"].parent / "mon.example.net", ANSIBLE / "roles/metrics/files"
    rules = "tributary.rules.yml"
    assert (host / "rules" / rules).read_text() == (files / rules).read_text()
    assert f"path: {host}/dashboards/tributary\n" in (host / "dashboards/tributary.yml").read_text()
    found = {path.name: path.read_text() for path in (host / "dashboards/tributary").iterdir()}
    assert found == {path.name: path.read_text() for path in (files / "dashboards").iterdir()}
