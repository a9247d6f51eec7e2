"""The playbooks themselves, as they are written: what they promise about each role holds."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.nativetypes
import pytest

from tests.ansible.playbooks import (
    ANSIBLE,
    APT,
    HERE,
    INVENTORIES,
    ROLES,
    SHELL,
    TEMPLATE,
    evaluated,
    every_task,
    holds,
    judged,
    needs_ansible,
    play,
    read,
    script,
    task_of,
)
from tests.refusals import command_error
from throttler.policy import model
from tributary.paths import ROOT
from tributary.settings import files
from tributary.settings.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PLAYBOOKS = {"gateway": "fleet", "handoff": "handoff", "monitoring": "fleet"}
SOURCES = sorted(path for path in ANSIBLE.rglob("*.yml") if "inventory" not in path.parts)
every_role = pytest.mark.parametrize("role", ROLES)


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
        ({"metrics_accounts": True}, None),
        ({"metrics_accounts": True, "metrics_accounts_networks": 20}, None),
        ({"metrics_accounts": True, "metrics_node_exporter": False}, "metrics_accounts: accepted: true with"),
        ({"metrics_accounts": True, "tributary_parts": ["squid"]}, "metrics_accounts: accepted: true with"),
        ({"metrics_accounts_networks": 10001}, "metrics_accounts_networks = 10001: accepted: a whole number"),
        ({"metrics_accounts_networks": "some"}, "metrics_accounts_networks"),
    ],
)
def test_accounts_are_for_who_can_show_them(said: dict[str, Any], complaint: str | None, tmp_path: Path) -> None:
    done = play(HERE / "metrics.yml", "one", tmp_path, "-e", json.dumps(said))
    judged(done, complaint is not None, complaint or "metrics_accounts: accepted:")


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


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_examples_have_documentation_addresses_alone(inventory: str) -> None:
    text = (ANSIBLE / "inventory" / f"{inventory}.yml").read_text()
    addresses = re.findall(r"\b(\d+\.\d+\.\d+)\.\d+", text)
    ours = {"10.0.0", "10.64.0", "10.84.0", "10.128.0", "127.0.0", "0.1.0"}
    assert set(addresses) <= {"192.0.2", "198.51.100", "203.0.113", *ours}
    assert set(re.findall(r"\b(2001:[0-9a-f]+):", text)) <= {"2001:db8"}
