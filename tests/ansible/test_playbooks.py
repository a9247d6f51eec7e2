"""The playbooks themselves: ansible-core reads them, and what they promise about each role holds."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import jinja2.nativetypes
import pydantic
import pytest

from gateway.registry import Registry
from tests.ansible.playbooks import ANSIBLE, HERE, INVENTORIES, ROLES, needs_ansible, play, script
from tests.refusals import command_error
from tests.unit.gateway.house import NETWORK, router
from throttler.policy import model
from tributary.paths import ROOT
from tributary.settings import files
from tributary.settings.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

yaml = pytest.importorskip("yaml", reason="PyYAML, which comes with ansible-core, is not installed")
PLAYBOOKS = {"gateway": "fleet", "handoff": "handoff", "monitoring": "fleet"}
PARTS = ("gateway", "guard", "squid", "tributary")
SOURCES = sorted(path for path in ANSIBLE.rglob("*.yml") if "inventory" not in path.parts)
APT, COPY, SHELL, TEMPLATE = (f"ansible.builtin.{each}" for each in ("apt", "copy", "shell", "template"))
every_role = pytest.mark.parametrize("role", ROLES)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def specified(role: str) -> dict[str, Any]:
    options: dict[str, Any] = read(ANSIBLE / "roles" / role / "meta/argument_specs.yml")["argument_specs"]["main"][
        "options"
    ]
    return options


@needs_ansible
@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_ansible_reads_every_line(playbook: str, tmp_path: Path) -> None:
    done = play(ANSIBLE / f"{playbook}.yml", PLAYBOOKS[playbook], tmp_path, "--syntax-check")
    assert done.returncode == 0, done.stdout + done.stderr


@every_role
def test_every_variable_with_a_default_is_explained(role: str) -> None:
    defaults = read(ANSIBLE / "roles" / role / "defaults/main.yml") or {}
    internal = {"tributary_served_networks"}
    assert set(defaults) - internal <= set(specified(role))
    assert all(option["description"] for option in specified(role).values())


@every_role
def test_a_role_refuses_wrong_arguments_also_when_it_only_checks(role: str) -> None:
    specs = read(ANSIBLE / "roles" / role / "meta/argument_specs.yml")["argument_specs"]
    checks = (ANSIBLE / "roles" / role / "tasks/check.yml").exists()
    assert set(specs) == ({"main", "check"} if checks else {"main"})
    assert not checks or specs["check"] == specs["main"]


@every_role
def test_every_setting_that_a_role_takes_is_in_the_documentation(role: str) -> None:
    page = "fleet" if role == "anycast" else "deploy-gateway-reference"
    text = (ANSIBLE.parent / f"docs/{page}.md").read_text()
    assert [name for name in specified(role) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ANSIBLE)))
def test_no_collection_is_needed(source: Path) -> None:
    modules = re.findall(r"^\s+(?:- )?([a-z_]+\.[a-z_]+\.[a-z_]+):$", source.read_text(), flags=re.MULTILINE)
    assert [module for module in modules if not module.startswith("ansible.builtin.")] == []


def test_apt_is_asked_where_something_is_missing_and_waits_for_its_lock() -> None:
    sources = [path for path in SOURCES if path.parent.name == "tasks"]
    by_apt = {path: tasks for path in sources if (tasks := [each for each in every_task(read(path)) if APT in each])}
    assert {path.relative_to(ANSIBLE / "roles").parts[::2] for path in by_apt} == {
        ("tributary", "install.yml"),
        ("packages", "check.yml"),
    }
    assert {task[APT]["lock_timeout"] for tasks in by_apt.values() for task in tasks} == {300}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ANSIBLE)))
def test_nothing_flushes_somebody_elses_rules(source: Path) -> None:
    assert "flush ruleset" not in source.read_text()


def test_every_part_is_checked_before_any_host_is_changed() -> None:
    first, second = read(ANSIBLE / "gateway.yml")
    checked = [task["ansible.builtin.import_role"]["name"] for task in first["tasks"][0]["block"][2:]]
    assert set(checked) == {role["role"] for role in second["roles"]}
    assert (second["serial"], second["max_fail_percentage"]) == (1, 0)


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
    done = play(HERE / "refuse.yml", "one", tmp_path, "-e", yaml.safe_dump(said, default_flow_style=True, width=10**6))
    assert done.returncode == 2, done.stdout
    assert complaint in " ".join(done.stdout.split()), done.stdout


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
    assert done.returncode == code, done.stdout + done.stderr
    assert (f"paths.inside.interface = {interface}: accepted:" in " ".join(done.stdout.split())) is (code == 2)


def test_a_policy_is_judged_with_the_limits_that_somebody_has_saved_on_the_host(tmp_path: Path) -> None:
    link = task_of("throttler", "check", by="ansible.builtin.file")["ansible.builtin.file"]
    (host := tmp_path / "throttler.d").mkdir()
    assert link["src"] == str(files.drop_ins(Path("/etc/tributary/throttler.toml")))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    policy = scratch / "throttler.toml"
    policy.write_text("[paths.dsl]\ninterface = 'eth0'\n[[rules]]\nname = 'all'\n")
    Path(link["dest"].replace("{{ tributary_scratch }}", str(scratch))).symlink_to(host)
    assert [each.name for each in model.read(policy).rules] == ["all"]
    (host / "limit-lte.toml").write_text("[[rules]]\nname = 'limit-lte'\npath = 'lte'\nrate = '2mbit'\n")
    with command_error(Exit.USAGE, "path = 'lte'"):
        model.read(policy)
    tasks = [each["name"] for each in read(ANSIBLE / "roles/throttler/tasks/check.yml")]
    assert tasks.index("Have beside it which limits the host has") < tasks.index("Let the throttler judge its policy")


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
    assert done.returncode == code, done.stdout
    assert ("accepted: https:// of each" in " ".join(done.stdout.split())) is (code == 2)


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


def test_accounts_that_are_no_longer_shown_go_before_that_by_which_another_run_knows_of_them() -> None:
    remove = task_of("metrics", "no_accounts", "Remove")["loop"]
    assert remove[-1] == task_of("metrics", "main", "Look for the accounts")["ansible.builtin.stat"]["path"]
    findings = task_of("metrics", "main", "Count the doctor's findings no longer")["loop"]
    assert {path for path in (*remove, *findings) if path.endswith(".prom")} == {
        f"/var/lib/prometheus/node-exporter/{name}.prom" for name in ("tributary-accounts", "tributary")
    }


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"metrics_accounts": True}, ""),
        ({"metrics_accounts": True, "metrics_accounts_networks": 20}, ""),
        ({"metrics_accounts": True, "metrics_node_exporter": False}, "metrics_accounts: accepted: true with"),
        ({"metrics_accounts": True, "tributary_parts": ["squid"]}, "metrics_accounts: accepted: true with"),
        ({"metrics_accounts_networks": 10001}, "metrics_accounts_networks = 10001: accepted: a whole number"),
        ({"metrics_accounts_networks": "some"}, "metrics_accounts_networks"),
    ],
)
def test_accounts_are_for_who_can_show_them(said: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    done = play(HERE / "metrics.yml", "one", tmp_path, "-e", json.dumps(said))
    assert done.returncode == (2 if complaint else 0), done.stdout + done.stderr
    assert complaint in " ".join(done.stdout.split())


def evaluated(template: str, **variables: Any) -> Any:
    """What a template that is one expression gives."""
    return jinja2.Environment().compile_expression(template.strip().removeprefix("{{").removesuffix("}}"))(**variables)


@pytest.mark.parametrize(
    ("parts", "listeners", "tracks"),
    [
        (["converter"], [{"kind": "http"}, {"kind": "transparent", "intercept": "tproxy"}], False),
        (["converter"], [{"kind": "http"}, {"kind": "transparent", "intercept": "redirect"}], True),
        (["converter", "gateway"], [{"kind": "http"}], True),
    ],
)
def test_tcp_is_tracked_where_addresses_are_translated(
    parts: list[str], listeners: list[dict[str, str]], tracks: bool
) -> None:
    default = read(ANSIBLE / "roles/firewall/defaults/main.yml")["firewall_track_tcp"]
    assert evaluated(default, tributary_parts=parts, tributary_listeners=listeners) is tracks


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


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIHd0"


@pytest.mark.parametrize(
    ("line", "opens"),
    [
        (f"ssh-ed25519 {KEY} desk", True),
        (f'from="10.0.0.*,192.0.2.1",no-x11-forwarding ssh-rsa {KEY}', True),
        (f"sk-ssh-ed25519@openssh.com {KEY} command=none", True),
        (f"ecdsa-sha2-nistp256 {KEY}", True),
        (f'\tenvironment="A=#1" ssh-rsa\t{KEY}', True),
        (f"# ssh-ed25519 {KEY}", False),
        (f"  # ssh-ed25519 {KEY}", False),
        (f'no-pty,command="echo \'Please login as the user \\"debian\\".\';exit 142" ssh-rsa {KEY}', False),
        (f'Command="rsync --server" ssh-ed25519 {KEY}', False),
        ("", False),
    ],
)
def test_a_key_counts_that_opens_a_shell(line: str, opens: bool, tmp_path: Path) -> None:
    task = task_of("hardening", "ssh", "Look for your key")
    file = tmp_path / "authorized_keys"
    file.write_text(f"# mine\n{line}\n")
    command = [file if "{{" in word else word for word in task["ansible.builtin.command"]["argv"]]
    assert (subprocess.run(command, check=False).returncode == 0) is opens


@pytest.mark.parametrize("name", ["one.toml", "folder/two.pem"])
def test_a_file_that_a_broken_off_run_wrote_counts_as_not_read(name: str, tmp_path: Path) -> None:
    asks = task_of("tributary", "unread", by=SHELL)[SHELL]
    said = {"tributary_unit": "some.service", "tributary_files": [f"{tmp_path}/{name}", f"{tmp_path}/not-there"]}
    (tmp_path / name).parent.mkdir(exist_ok=True)
    since = datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC).timestamp()
    for property_asked in ("ActiveEnterTimestamp", "StateChangeTimestamp"):
        stamp = f"echo Sun 2026-03-01 12:00:00.500000 UTC; echo $* | grep -q {property_asked}"
        command = jinja2.Template(asks).render(
            said, **({"tributary_since": property_asked} if "St" in property_asked else {})
        )
        for written, answer, counts in (
            (since - 0.25, stamp, False),
            (since + 0.25, stamp, True),
            # There is no such unit, or it never ran.
            (since + 0.25, "echo", False),
        ):
            script(tmp_path / "systemctl", answer)
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (written, written))
            environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=environment)
            assert (name in found.stdout) is counts, found.stderr


@every_role
def test_each_handler_that_a_broken_off_run_lost_is_notified_by_the_next_one(role: str) -> None:
    """By what finds its files unread, or its options unknown to systemd; it says from where that is seen."""
    folder = ANSIBLE / "roles" / role
    handlers = read(folder / "handlers/main.yml") if (folder / "handlers/main.yml").exists() else []
    tasks = [each for path in (folder / "tasks").iterdir() for each in every_task(read(path))]
    asks = [each["vars"] for each in tasks if each.get("ansible.builtin.import_role", {}).get("tasks_from") == "unread"]
    # The firewall compares its files with those that are loaded.
    assert bool(asks) is (role not in ("firewall", "health", "packages", "tributary"))
    asked = " ".join(each.get("tributary_handler", "") for each in asks)
    if role == "throttler":
        asked = asked.replace("{{ throttler_reads }}", read(folder / "vars/main.yml")["throttler_reads"])
    # The tunnels' own timer, and a boot, after which the package's values hold in place of an earlier playbook's.
    elsewhere = {"Bring the tunnels in line", "Apply the kernel settings", "Load the options of what timers start"}
    assert [each["name"] for each in handlers if each["name"] not in asked and each["name"] not in elsewhere] == []
    # A unit is asked about that the handler changes, and what needs a restart is not hidden by a reload.
    services = {each["name"]: each["ansible.builtin.systemd"] for each in handlers if "ansible.builtin.systemd" in each}
    for each in asks:
        if (service := services.get(each.get("tributary_handler", ""))) is not None:
            assert service["name"] == each["tributary_unit"]
            assert (each.get("tributary_since") == "StateChangeTimestamp") is (service["state"] == "reloaded")


def test_kernel_settings_are_in_force_before_a_run_can_be_broken_off() -> None:
    for role in ROLES:
        tasks = [each for path in (ANSIBLE / "roles" / role / "tasks").iterdir() for each in every_task(read(path))]
        writes = [
            each[module]
            for each in tasks
            for module in ("ansible.builtin.template", "ansible.builtin.copy")
            if module in each
        ]
        settings = [each for each in writes if each["dest"].startswith("/etc/sysctl.d/")]
        assert all("sysctl -e" in each["validate"] or "mptcp_apply" in each["validate"] for each in settings)
        assert len(settings) == (role in ("anycast", "hardening", "mptcp"))


def every_task(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Also those in blocks."""
    for task in tasks:
        yield task
        yield from every_task(task.get("block", []))


def task_of(role: str, file: str, name: str = "", by: str = "name") -> dict[str, Any]:
    """The only one of a role's file that has this in its ``name``, and that goes ``by`` this module."""
    tasks = every_task(read(ANSIBLE / f"roles/{role}/tasks/{file}.yml"))
    (task,) = (each for each in tasks if name in each.get("name", "") and by in each)
    return task


def test_a_diff_shows_nothing_of_a_file_that_is_not_for_everybody() -> None:
    modules = ("ansible.builtin.template", "ansible.builtin.copy")
    for role in ROLES:
        tasks = [each for path in (ANSIBLE / "roles" / role / "tasks").iterdir() for each in every_task(read(path))]
        found = (task | task[module] for task in tasks for module in modules if module in task)
        # What is copied on the host itself is no secret: the firewall's rules.
        writes = [each for each in found if "src" in each and not each.get("remote_src")]
        private = {each["src"] for each in writes if each["mode"] in ("0600", "0640")}
        assert [each["name"] for each in writes if each["src"] in private and each.get("diff", True)] == []
        assert private or role not in ("anycast", "console", "converter", "gateway", "handoff", "overlay")


NOTHING = {"changed": False}


@pytest.mark.parametrize(("standing", "loaded", "loads"), [(0, 0, False), (0, 1, True), (1, 0, True), (1, 1, True)])
def test_a_firewall_that_was_written_and_not_loaded_is_loaded(standing: int, loaded: int, loads: bool) -> None:
    found = {each["name"]: each for each in every_task(read(ANSIBLE / "roles/firewall/tasks/main.yml"))}
    environment = jinja2.Environment()
    environment.tests["changed"] = lambda result: result["changed"]
    said = {
        "firewall_site": NOTHING,
        "ansible_check_mode": False,
        "firewall_standing": {"rc": standing},
        "firewall_loaded": {"rc": loaded},
    }

    def runs(task: str) -> bool:
        when = found[task]["when"]
        return all(environment.compile_expression(each)(**said) for each in ([when] if isinstance(when, str) else when))

    assert runs("Load it with a way back") is loads
    assert runs("Keep the rules that stand, for the way back")


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


SUCCESSORS = {
    "mptcp": ("Write the limits of the path manager", "/usr/lib/systemd/system/tributary-mptcp.service", [
        "/etc/sysctl.d/91-tributary-gateway.conf",
        "/etc/systemd/system/tributary-mptcp.service",
    ]),
    "firewall": ("Make the folder for rules", "{{ firewall_rules }}", [
        "/etc/nftables.d/tributary-firewall.nft",
        "/etc/systemd/system/nftables.service.d/tributary.conf",
        "/etc/systemd/system/tributary-firewall.service",
    ]),
}  # fmt: skip
"""By role: after which task it removes what earlier playbooks wrote, once the package has this; what it removes."""


def holds(task: dict[str, Any], **said: object) -> bool:
    when = task["when"]
    every = [when] if isinstance(when, str) else when
    return all(jinja2.Environment().compile_expression(each)(**said) for each in every)


@pytest.mark.parametrize("role", SUCCESSORS)
def test_what_earlier_playbooks_wrote_goes_once_its_successors_are_there(role: str) -> None:
    """With the role that writes them: a run by tags, or ansible/handoff.yml, takes nothing that it does not bring."""
    after, packed, paths = SUCCESSORS[role]
    tasks = list(every_task(read(ANSIBLE / "roles" / role / "tasks/main.yml")))
    names = [each["name"] for each in tasks]
    ask, remove = (names.index(f"{begin} what earlier playbooks wrote{end}") for begin, end in (
        ("Ask whether the package brings", ""), ("Remove", " and the package brings"),
    ))  # fmt: skip
    assert names.index(after) < ask < remove and tasks[remove]["loop"] == paths
    assert tasks[ask]["ansible.builtin.stat"]["path"] == packed
    register = tasks[ask]["register"]
    assert [holds(tasks[remove], **{register: {"stat": {"exists": there}}}) for there in (True, False)] == [True, False]


def test_the_packages_role_takes_nothing_away() -> None:
    tasks = every_task(read(ANSIBLE / "roles/packages/tasks/main.yml"))
    assert [each["name"] for each in tasks if each.get("ansible.builtin.file", {}).get("state") == "absent"] == []


@pytest.mark.parametrize("role", SUCCESSORS)
@pytest.mark.parametrize(
    ("leads_to", "goes"), [("/etc/systemd/system", True), ("/usr/lib/systemd/system", False), (None, False)]
)
def test_a_link_to_the_unit_of_an_earlier_playbook_goes_before_the_packages_is_enabled(
    role: str, leads_to: str | None, goes: bool
) -> None:
    """It would lead nowhere, and count as the package's. Also where an earlier run has removed the unit."""
    tasks = list(every_task(read(ANSIBLE / "roles" / role / "tasks/main.yml")))
    (link,) = (each for each in tasks if each["name"].startswith("Remove a link to the unit"))
    (enables,) = (each for each in tasks if each.get("ansible.builtin.systemd", {}).get("enabled"))
    assert tasks.index(link) < tasks.index(enables)
    target = {} if leads_to is None else {"lnk_source": f"{leads_to}/tributary-{role}.service"}
    said = {f"{role}_link": {"stat": target}, f"{role}_packed": {"stat": {"exists": True}}}
    assert holds(link, **said) is goes


def test_what_the_inventory_no_longer_says_of_the_kernel_is_as_the_package_has_it() -> None:
    command = read(ANSIBLE / "roles/mptcp/vars/main.yml")["mptcp_apply"]
    packed = [f"/usr/lib/sysctl.d/{path.name}" for path in sorted((ROOT / "kernel-config").glob("9*.conf"))]
    assert command.split() == ["/usr/sbin/sysctl", "-e", "-q", "-p", *packed]
    (handler, _) = read(ANSIBLE / "roles/mptcp/handlers/main.yml")
    assert handler["ansible.builtin.command"] == "{{ mptcp_apply }} /etc/sysctl.d/92-tributary-gateway.conf"
    assert task_of("mptcp", "main", "of the inventory", by=TEMPLATE)[TEMPLATE]["validate"] == "{{ mptcp_apply }} %s"


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


def play_task(
    task: dict[str, Any], said: dict[str, Any], inventory: str, scratch: Path
) -> subprocess.CompletedProcess[str]:
    """Run one task of a role by itself on the inventory's first host, with these variables."""
    of_it = {"hosts": "all[0]", "gather_facts": False, "connection": "local", "vars": said, "tasks": [task]}
    (scratch / "task.yml").write_text(yaml.safe_dump([of_it], width=10**6))
    return play(scratch / "task.yml", inventory, scratch)


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
    assert (done.returncode == 2) is refused, done.stdout + done.stderr
    assert ("gw1.example.net: no other node is announced" in " ".join(done.stdout.split())) is refused


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
    assert (done.returncode == 2) is refused, done.stdout + done.stderr
    assert ("anycast_routers must have a router of each IP version" in " ".join(done.stdout.split())) is refused


def test_a_node_that_leaves_the_fleet_loses_all_that_made_it_one() -> None:
    tasks = {
        name: list(every_task(read(ANSIBLE / f"roles/anycast/tasks/{name}.yml")))
        for name in ("main", "announce", "leave", "drain")
    }
    made = [*tasks["main"], *tasks["announce"]]
    modules = ("ansible.builtin.template", "ansible.builtin.copy")
    written = {
        task[module]["dest"].replace("{{ item }}", str(item))
        for task in made
        for module in modules
        if module in task
        for item in task.get("loop", [""])
    }
    (started,) = (task["loop"] for task in made if "ansible.builtin.systemd" in task)
    (stopped,) = (task["loop"] for task in tasks["leave"] if "ansible.builtin.systemd" in task)
    (removed,) = (task["loop"] for task in tasks["leave"] if "ansible.builtin.file" in task)
    assert (written - set(removed), set(stopped)) == (set(), set(started))
    # A run that is broken off loses its handlers, and the next one finds fewer units.
    assert not [task for task in tasks["leave"] if "notify" in task]
    (condition,) = (task["when"] for task in tasks["leave"] if "ansible.builtin.systemd" in task)
    assert condition == "item not in anycast_units_gone"
    # The program is found by another run as long as something else may be left.
    (looked,) = (task["ansible.builtin.stat"]["path"] for task in tasks["main"] if "ansible.builtin.stat" in task)
    assert removed[-1] == looked
    second = read(ANSIBLE / "gateway.yml")[1]
    assert ["anycast_addresses | length == 0" in task["when"] for task in second["pre_tasks"]] == [False, True]


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


def test_a_deployment_that_fails_names_what_is_wrong_and_what_could_not_be_examined() -> None:
    (block,) = read(ANSIBLE / "roles/health/tasks/doctor.yml")
    assert block["block"][0]["until"] == "health_findings.rc == 0"  # the doctor ends otherwise for both
    findings = [
        {"check": check, "state": state, "message": message, "fix": fix, "advice": ""}
        for check, state, message, fix in (
            ("MPTCP", "ok", "switched on", []),
            ("limits", "wrong", "too few", ["sysctl -w a=1"]),
            ("firewall", "unknown", "nft: did not end in 20 s", []),
        )
    ]
    environment = jinja2.nativetypes.NativeEnvironment()
    environment.filters["from_json"] = json.loads
    known: dict[str, Any] = {"health_findings": {"stdout": json.dumps(findings)}, "inventory_hostname": "gw1"}
    for name, text in block["rescue"][0]["vars"].items():
        known[name] = environment.from_string(text).render(known)
    said = environment.from_string(block["rescue"][0]["ansible.builtin.fail"]["msg"]).render(known)
    assert " ".join(said.split()) == (
        "gw1: limits: too few (sysctl -w a=1) gw1: firewall: nft: did not end in 20 s (could not be examined)"
    )


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
    done = _judged(tmp_path, kept, never_forwarded=[closed])
    assert done.returncode == code, done.stdout + done.stderr
    assert (f"the gateway itself needs {closed}" in done.stdout) is (code == 2)


@needs_ansible
def test_a_router_that_the_host_has_revoked_is_refused_while_the_controller_has_its_file(tmp_path: Path) -> None:
    host, controller = Registry(tmp_path / "gateway/routers", NETWORK), Registry(tmp_path / "all/routers", NETWORK)
    for number, name in enumerate(("home", "other"), start=1):
        controller.write(name, router(number))
    host.revoked.add("home", router(1).keys)
    done = _judged(tmp_path, {"gateway_state": str(host.folder.parent), "gateway_routers": str(controller.folder)})
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "home.toml: its keys were revoked on" in said, said
    assert "other.toml: its" not in said


def _judged(folder: Path, kept: dict[str, str], **settings: object) -> subprocess.CompletedProcess[str]:
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
    assert done.returncode == 2, done.stdout
    assert "nothing was changed | gw1.example.net: Refuse a version that is not whole" in " ".join(done.stdout.split())
    assert "PLAY [Deploy one gateway after the other]" not in done.stdout
    assert not list(Path(gettempdir()).glob("tributary-check-*"))


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_examples_have_documentation_addresses_alone(inventory: str) -> None:
    text = (ANSIBLE / "inventory" / f"{inventory}.yml").read_text()
    addresses = re.findall(r"\b(\d+\.\d+\.\d+)\.\d+", text)
    ours = {"10.0.0", "10.64.0", "10.84.0", "10.128.0", "127.0.0", "0.1.0"}
    assert set(addresses) <= {"192.0.2", "198.51.100", "203.0.113", *ours}
    assert set(re.findall(r"\b(2001:[0-9a-f]+):", text)) <= {"2001:db8"}
