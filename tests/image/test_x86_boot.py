"""The x86 image of a gateway, booted by BIOS: the first boot, the converters, the throttler, the doctor."""

from typing import Any

import pytest

from image.check.examination import examine
from tests.image.machine import GROWTH, Medium, boot_pc, section
from tests.netns.world import needs

pytestmark = needs("qemu-system-x86_64")

BOARD = "x86"
ALL = ("system", "features", "network", "downloads", "doctor", "fixed", "tenants")


@pytest.fixture(scope="module")
def bios(medium: Medium) -> str:
    return boot_pc(medium, *ALL, uefi=False, seconds=1500)


@pytest.fixture(scope="module")
def system(bios: str) -> dict[str, Any]:
    return section(bios, "system")


@pytest.fixture(scope="module")
def downloads(bios: str) -> dict[str, Any]:
    return section(bios, "downloads")


def test_it_boots_by_bios_and_nothing_fails(system: dict[str, Any]) -> None:
    assert system["firmware"] == "BIOS"
    assert (system["state"], system["failed"]) == ("running", []), system["why"]
    assert system["as_an_upgrade"] == "good"


def test_it_is_what_the_boot_partition_says(system: dict[str, Any]) -> None:
    assert (system["hostname"], system["role"]) == ("attic", "gateway")
    assert system["card"] == ["tributary-applied.txt", "tributary.toml"]
    assert "This is attic, a Tributary gateway." in system["applied"]
    running = {name for name, state in system["active"].items() if state == "active"}
    parts = ("squid", "converter", "throttler", "console", "firewall", "firstboot", "mptcp")
    assert {"ssh.service", *(f"tributary-{part}.service" for part in parts)} <= running


def test_what_nobody_asked_for_does_not_run(system: dict[str, Any]) -> None:
    assert system["sockets"] != "active"
    ports = {address.rpartition(":")[2] for address in system["open"] if not address.startswith("127.")}
    assert ports <= {"22", "3128", "3129", "1080", "5124", "53", "5355"}


def test_it_has_numbers_and_keys_of_its_own_and_the_whole_disk(system: dict[str, Any], medium: Medium) -> None:
    assert len(system["machine_id"]) == 32
    assert {"ssh_host_ed25519_key", "ssh_host_rsa_key"} <= set(system["host_keys"])
    assert system["root_source"] == medium.root_name
    assert system["data_bytes"] > GROWTH
    assert all(line.partition(":")[2].startswith(("!", "*")) for line in system["login"].splitlines())


def test_names_are_asked_of_systemd_resolved(system: dict[str, Any]) -> None:
    assert system["resolver"] == "/run/systemd/resolve/stub-resolv.conf"


def test_the_kernel_has_netem_fq_codel_and_cls_fw(bios: str) -> None:
    assert section(bios, "features") == {"sch_netem": True, "fq_codel": True, "htb": True, "cls_fw": True}
    assert "netem" in section(bios, "network")["links"]


@pytest.mark.parametrize("converter", ["squid", "converter"])
def test_a_client_downloads_over_two_subflows(downloads: dict[str, Any], converter: str) -> None:
    found = downloads[converter]
    assert found["whole"], found
    # How much of it by which one is up to an emulated processor.
    assert min(found["received"].values()) > 0.1 * sum(found["received"].values())


def test_servers_see_plain_tcp(downloads: dict[str, Any]) -> None:
    assert downloads["server_saw"].split()[1] == "0"
    assert int(downloads["joins"].split()[1]) >= 3


def test_the_throttler_holds_one_subflow_and_the_other_takes_over(downloads: dict[str, Any]) -> None:
    held = downloads["held"]
    assert held["whole"]
    assert 8 * held["received"]["wired"] / held["seconds"] < 1.3e6  # 1 Mbit/s, and what was before the hold
    assert held["received"]["wireless"] > held["received"]["wired"]
    assert {"htb", "fq_codel"} <= set(held["qdiscs"])


def test_the_doctor_finds_nothing_wrong(bios: str) -> None:
    found = section(bios, "doctor")
    wrong = [each for each in found["findings"] if each["state"] == "wrong"]
    assert (found["code"], wrong) == (0, [])
    assert "subflows obey net.ipv4.tcp_notsent_lowat" in [each["message"] for each in found["findings"]]
    assert found["recorded"]["role"] == "gateway"
    states = [(each["check"], each["state"]) for each in found["findings"] if not each["check"].startswith("kernel, ")]
    assert [(each["check"], each["state"]) for each in found["recorded"]["findings"]] == states
    assert {"kernel, mptcp", "MPTCP", "kernel settings", "firewall", "limits", "clock"} <= {
        each["check"] for each in found["findings"]
    }


def test_the_page_has_the_doctor_fix_a_setting(bios: str) -> None:
    found = section(bios, "fixed")
    assert any("tcp_notsent_lowat" in message for message in found["wrong"]), found
    assert [each["failure"] for each in found["answer"]["ran"]] == [None] and found["answer"]["left"] == []
    assert (found["now"], found["left"], found["failed"]) == (found["right"], [], [])
    (entry,) = found["journal"]
    assert (entry["subject"], entry["before"], entry["after"]) == ("check settings", "wrong", "ok")


def test_each_tenant_has_a_converter_of_its_own_in_its_network(bios: str) -> None:
    found = section(bios, "tenants")
    for tenant in ("blue", "green"):
        began = found[tenant]
        assert began["download"]["whole"], began
        assert began["status"]["listeners"][0]["address"] == "127.0.0.1:4000"
    assert 0 not in (users := {found["blue"]["user"], found["green"]["user"]})
    assert len(users) == 2
    assert ":4000" not in found["outside"]
    assert all(download["whole"] for download in found["after"]), "after a hand-over"
    assert all('"outcome":"ok"' in log for log in found["logs"])
    assert found["nobody"] != 0, "an instance without a namespace"


def test_the_card_says_what_to_do_next(medium: Medium, bios: str) -> None:
    assert "END system" in bios  # it has run
    text = medium.boot.read("tributary-applied.txt").decode()
    assert "HTTP proxy: 192.168.76." in text
    assert "Log in: ssh tributary@192.168.76." in text


def test_a_box_that_has_booted_is_told_from_a_new_image(medium: Medium, bios: str) -> None:
    assert "END system" in bios
    wrong = [str(finding) for finding in examine(medium.path, "x86", "gateway") if not finding.fine]
    assert any("SSH host keys" in line for line in wrong)
