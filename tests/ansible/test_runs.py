"""Playbooks that ansible-core runs, on this machine alone: what they refuse, and what they would do."""

import json
import re
import subprocess
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pydantic
import pytest

from gateway.registry import Registry
from tests.ansible.playbooks import (
    ANSIBLE,
    COPY,
    HERE,
    NOTHING,
    TEMPLATE,
    every_task,
    judged,
    needs_ansible,
    play,
    play_task,
    read,
    script,
    task_of,
)
from tests.unit.gateway.house import NETWORK, router
from tributary.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTS = ("gateway", "guard", "squid", "tributary")


@needs_ansible
@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (
            {"tributary_client_networks": ["10.0.0.1/8"]},
            "networks: 10.0.0.1/8: accepted: networks without host bits",
        ),
        (
            {"tributary_parts": ["squidd"]},
            "tributary_parts must be one or more of: squid, converter, throttler",
        ),
        ({"firewall_lan_interfaces": ["end1"]}, "firewall_lan_interfaces: a gateway has no LAN"),
        ({"release": "bullseye"}, "accepted: Debian 12, Debian 13, Ubuntu 24.04"),
    ],
)
def test_what_is_wrong_stops_before_anything_is_changed(said: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    done = play(HERE / "refuse.yml", "one", tmp_path, "-e", json.dumps(said))
    judged(done, True, complaint)


@needs_ansible
@pytest.mark.parametrize(
    ("interface", "parts", "code"),
    [
        ("lo", ["throttler"], 0),
        ("tb-inside", ["throttler", "gateway"], 0),
        ("tb-inside", ["throttler"], 2),
        ("tributary", ["throttler", "gateway"], 2),
    ],
)
def test_a_paths_interface_is_there_or_will_be_that_of_the_tunnels(
    interface: str, parts: list[str], code: int, tmp_path: Path
) -> None:
    said = {
        "tributary_parts": parts,
        "gateway_settings": {"name": "gw1.example.net", "interface": "tb-inside"},
        "throttler_policy": {"paths": {"inside": {"interface": interface}}},
    }
    # Without the throttler's own judgement, for which its package would have to be there.
    options = ["--start-at-task", "Look for the interfaces of its paths", "-e", json.dumps(said)]
    done = play(HERE / "paths.yml", "routers", tmp_path, *options)
    judged(done, code == 2, f"paths.inside.interface = {interface}: accepted:")


@needs_ansible
def test_etcd_elsewhere_is_read_by_a_certificate_that_is_there(tmp_path: Path) -> None:
    (identity := tmp_path / "desk").mkdir()
    said = {
        "folder": str(tmp_path),
        "overlay_endpoints": ["https://192.0.2.9:2379", "https://192.0.2.10:2379"],
        "overlay_certificate": str(identity),
    }
    refused = play(HERE / "overlay.yml", "one", tmp_path, "-e", json.dumps(said))
    assert refused.returncode == 2 and "accepted with https: the folder" in refused.stdout, refused.stdout
    for name in ("ca.pem", "node.pem", "node.key"):
        (identity / name).write_text("")
    done = play(HERE / "overlay.yml", "one", tmp_path, "-e", json.dumps(said))
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in (tmp_path / "overlay.conf").read_text().splitlines() if not line.startswith("#"))
    endpoints = ",".join(said["overlay_endpoints"])
    assert line == f'OPTIONS="--endpoints {endpoints} --identity /etc/tributary/overlay --metrics 127.0.0.1:9467"'


@needs_ansible
@pytest.mark.parametrize(
    ("endpoint", "code"),
    [("http://192.0.2.9:2379", 2), ("192.0.2.9:2379", 2), ("http://[::1]:2379", 0), ("http://127.0.0.1:2379", 0)],
)
def test_etcd_elsewhere_is_not_read_without_a_certificate(endpoint: str, code: int, tmp_path: Path) -> None:
    said = json.dumps({"folder": str(tmp_path), "overlay_endpoints": [endpoint]})
    done = play(HERE / "overlay.yml", "one", tmp_path, "-e", said)
    judged(done, code == 2, "accepted: https:// of each")


@needs_ansible
def test_rules_and_dashboards_take_no_figures_from_a_gateway_that_has_prometheus() -> None:
    """One that is in both groups has its exporters and the doctor's findings by the other playbook."""
    (one,) = read(ANSIBLE / "monitoring.yml")
    assert [task["ansible.builtin.import_role"] for task in one["tasks"]] == [
        {"name": "metrics", "tasks_from": "rules"}
    ]
    assert not one.keys() & {"roles", "vars"}
    tasks = list(every_task(read(ANSIBLE / "roles/metrics/tasks/rules.yml")))
    written = {str(task[each]["dest"]) for task in tasks for each in (TEMPLATE, COPY) if each in task}
    assert written and all(path.startswith(("{{ metrics_prometheus }}", "{{ metrics_grafana }}")) for path in written)
    assert not [task for task in tasks if "absent" in str(task) or "ansible.builtin.systemd" in task]


@needs_ansible
def test_gateways_of_one_inventory_reboot_at_different_times(tmp_path: Path) -> None:
    done = play(HERE / "hardening.yml", "fleet", tmp_path, "--tags", "report", "--limit", "gateways:!gw2*")
    told = sorted(re.findall(r"gw\d at [0-9:]+", done.stdout))
    assert told == ["gw1 at 04:30", "gw3 at 05:00"], done.stdout + done.stderr


def package(name: str, provides: str, status: str = "install ok installed") -> str:
    """An entry of dpkg's status file."""
    return f"Package: {name}\nStatus: {status}\nVersion: 1\nArchitecture: all\nProvides: {provides}\n\n"


@needs_ansible
@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ("", "unattended-upgrades, systemd-timesyncd"),
        (package("ntpsec", "ntp, time-daemon (= 1), sntp"), "unattended-upgrades"),
        (package("chrony", "time-daemon", "deinstall ok config-files"), "unattended-upgrades, systemd-timesyncd"),
        (package("systemd-timesyncd", "time-daemon") + package("unattended-upgrades", "nothing"), ""),
    ],
)
def test_a_host_gets_what_it_lacks_and_no_second_clock(
    known: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("updates", "lists/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "status").write_text(known)
    # Nor has apt any archive: to read all of Debian's takes long, and the task has only to begin.
    state = f'Dir::State {{ status "{tmp_path}/status"; lists "{tmp_path}/lists"; }};\n'
    (tmp_path / "apt.conf").write_text(f'{state}Dir::Cache "{tmp_path}";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setenv("DPKG_ADMINDIR", str(tmp_path))
    done = play(HERE / "hardening.yml", "one", tmp_path)
    _, _, after = done.stdout.partition(f"{f'Install what is missing: {missing}'.strip()}]")
    assert after, done.stdout + done.stderr
    assert bool(missing) is not after.lstrip("* \n").startswith("skipping")


ALL = ("tributary-common", "tributary-squid", "tributary-converter")


@needs_ansible
@pytest.mark.parametrize(
    ("there", "version", "options", "upgrading", "by"),
    [
        (ALL, "2", [], False, "installed"),
        (ALL, "1", ["--tags", "squid"], True, "installed"),
        (ALL, "1", ["--skip-tags", "packages"], True, "installed"),
        (ALL, "1", ["--tags", "packages,squid"], True, "new"),
        (ALL[::2], "2", [], False, "new"),
        (ALL[::2], "1", ["--tags", "squid"], True, "none"),
        ((), "", ["--tags", "firewall"], False, "new"),
    ],
)
def test_settings_are_judged_by_the_programs_that_will_run(
    there: tuple[str, ...],
    version: str,
    options: list[str],
    upgrading: bool,
    by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "scratch").mkdir()
    for name in ALL:
        (tmp_path / f"packages/{name}_2~deb13_amd64.deb").touch()
    lines = [f"installed {name} {version}~deb13" for name in there]
    printed = "\n".join([*lines, "config-files tributary-other 1"])
    for program, does in {"dpkg-query": f"echo '{printed}'; exit 1", "dpkg-deb": "exit 1"}.items():
        script(tmp_path / program, f"{does}\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = play(HERE / "packages.yml", "one", tmp_path, "-e", f"folder={tmp_path}", *options)
    said = " ".join(done.stdout.split())
    assert f"upgrading={upgrading} before={','.join(there)} new={by == 'new'}" in said, said
    # Those that are new are unpacked, here in vain.
    assert (done.returncode, "dpkg-deb" in said) == (0 if by == "installed" else 2, by == "new")
    refused = "lacks tributary-squid, and has other versions than 2~deb13: accepted: --tags packages"
    assert (refused in said) is (by == "none")


@needs_ansible
@pytest.mark.parametrize(
    ("arguments", "unread", "state"),
    [(False, False, "started"), (False, True, "restarted"), (True, False, "restarted")],
)
def test_a_back_end_that_runs_by_an_older_program_is_restarted(
    arguments: bool, unread: bool, state: str, tmp_path: Path
) -> None:
    task = task_of("handoff", "service", "by them")
    (asks,) = (each["vars"] for each in read(ANSIBLE / "roles/handoff/tasks/service.yml") if "vars" in each)
    assert "/var/lib/dpkg/info/tributary-handoff.list" in asks["tributary_files"]
    said = {
        "handoff_arguments": {"changed": arguments},
        "handoff_copied": NOTHING,
        "tributary_unread": {"changed": unread},
        "handoff_unit": "backend",
    }
    asked = {"ansible.builtin.assert": {"that": f"asked == '{state}'"}}
    tested = asked | {"vars": {"asked": task["ansible.builtin.systemd"]["state"]}}
    done = play_task(tested, said, "localhost,", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_ansible
@pytest.mark.parametrize(
    ("codes", "alone", "refused"),
    [
        ([0, 1, 69], False, True),
        ([0, None, 2], False, True),
        ([0, 1, 69], True, False),
        ([0, 0, 1], False, False),
        ([1, 1, 1], False, False),
    ],
    ids=["others-withdrawn", "others-away", "all-the-same", "one-is-enough", "itself-withdrawn"],
)
def test_the_only_node_that_is_announced_is_not_drained_for_an_upgrade(
    codes: list[int | None], alone: bool, refused: bool, tmp_path: Path
) -> None:
    task = task_of("anycast", "drain", "Refuse")
    nodes = [{"item": f"gw{number}.example.net", "rc": code} for number, code in enumerate(codes, 1)]
    # Who cannot be reached has no exit code.
    asked = {"results": [{name: value for name, value in node.items() if value is not None} for node in nodes]}
    done = play_task(task, {"anycast_asked": asked, "anycast_drain_alone": alone}, "fleet", tmp_path)
    judged(done, refused, "gw1.example.net: no other node is announced")


@needs_ansible
@pytest.mark.parametrize(
    ("addresses", "refused"),
    [(["192.0.2.1", "192.0.2.2"], True), (["2001:db8:12::1"], True), (["192.0.2.1", "2001:db8:12::1"], False)],
)
def test_an_address_of_an_ip_version_that_no_router_speaks_is_refused(
    addresses: list[str], refused: bool, tmp_path: Path
) -> None:
    task = task_of("anycast", "check", "Refuse an address that no router would hear of")
    routers = [{"address": address, "as": 65000} for address in addresses]
    said = {"anycast_routers": routers, "anycast_protocol": "bgp", "anycast_versions": [4, 6]}
    done = play_task(task, said, "fleet", tmp_path)
    judged(done, refused, "anycast_routers must have a router of each IP version")


@needs_ansible
@pytest.mark.parametrize("kept_by", ["the host", "the controller"])
@pytest.mark.parametrize(("closed", "code"), [("tcp/2223", 0), ("tcp/2222", 2)])
def test_a_setting_that_contradicts_a_router_that_is_enrolled_is_refused(
    kept_by: str, closed: str, code: int, tmp_path: Path
) -> None:
    state = tmp_path / "gateway"
    registry = Registry(state / "routers", NETWORK)
    registry.write("home", router(1, forward=["tcp/2222"]))
    kept = {"gateway_state": str(state)} if kept_by == "the host" else {"gateway_routers": str(registry.folder)}
    done = _tunnels(tmp_path, kept, never_forwarded=[closed])
    judged(done, code == 2, f"the gateway itself needs {closed}")


@needs_ansible
def test_a_router_that_the_host_has_revoked_is_refused_while_the_controller_has_its_file(tmp_path: Path) -> None:
    host, controller = Registry(tmp_path / "gateway/routers", NETWORK), Registry(tmp_path / "all/routers", NETWORK)
    for number, name in enumerate(("home", "other"), start=1):
        controller.write(name, router(number))
    host.revoked.add({"home": router(1).keys})
    done = _tunnels(tmp_path, {"gateway_state": str(host.folder.parent), "gateway_routers": str(controller.folder)})
    judged(done, True, "home.toml: its keys were revoked on")
    assert "other.toml: its" not in " ".join(done.stdout.split())


def _tunnels(folder: Path, kept: dict[str, str], **settings: object) -> subprocess.CompletedProcess[str]:
    """The role's judgement where the routers' files are ``kept`` there."""
    (folder / "scratch").mkdir()
    said = {
        "folder": str(folder),
        "packages_programs": str(_programs(folder / "root")),
        "gateway_settings": {"name": "gw1.example.net", **settings},
        **kept,
    }
    return play(HERE / "tunnels.yml", "routers", folder, "-e", json.dumps(said))


def _programs(root: Path) -> Path:
    """A root that has what the packages' programs import, at their place."""
    folder = root / "usr/lib/tributary/python"
    folder.mkdir(parents=True)
    for each in (*Path(pydantic.__file__).parent.parent.iterdir(), *(ROOT / part for part in PARTS)):
        (folder / each.name).symlink_to(each)
    return root


@needs_ansible
def test_one_host_that_is_wrong_keeps_all_from_being_changed(tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "/usr/bin/python3"}
    said = json.dumps(here | {"tributary_packages": str(tmp_path)})
    done = play(ANSIBLE / "gateway.yml", "fleet", tmp_path, "-e", said)
    judged(done, True, "nothing was changed | gw1.example.net: Refuse a version that is not whole")
    assert "PLAY [Deploy one gateway after the other]" not in done.stdout
    assert not list(Path(gettempdir()).glob("tributary-check-*"))
