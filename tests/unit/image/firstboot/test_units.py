"""The order of the units that the image brings for this part."""

import re

from tests.unit.image.firstboot.systems import SHIPPED


def test_settings_are_applied_before_whoever_reads_them_starts() -> None:
    unit = (SHIPPED.parent / "tributary-firstboot.service").read_text()
    before = " ".join(re.findall(r"^Before=(.*)$", unit, re.MULTILINE)).split()
    assert {"network-pre.target", "systemd-networkd.service", "ssh.service", "getty-pre.target"} <= set(before)
    assert {
        "dnsmasq.service",
        *(f"tributary-{part}.service" for part in ("lan", "router", "converter", "squid")),
    } <= set(before)


def test_the_rules_of_the_lan_are_there_before_dnsmasq_fills_their_sets_and_are_replaced_in_one_piece() -> None:
    unit = (SHIPPED.parent / "tributary-lan.service").read_text()
    assert "dnsmasq.service" in re.findall(r"^Before=(.*)$", unit, re.MULTILINE)
    loaded = re.findall(r"^ExecStart=(.*nft.*)$", unit, re.MULTILINE)
    assert re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE) == loaded
