"""What WireGuard costs on Debian 13's own kernel: the kernel's, wireguard-go's, and none, by counted instructions.

In these guests each instruction takes a nanosecond, so that "processor seconds for 1 GB" are instructions for each
byte, the same in every run, however busy the machine is. They are no times: a real processor takes another time for
each instruction, waits for memory, and does several at once. ``pytest -s`` shows the tables.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.vm.machine import arm, debian_folder, emulated, pc, printed
from tributary.paths import ROOT

pytestmark = emulated(3600, "qemu-system-aarch64")

PACKAGES = ("kmod", "iproute2", "ethtool", "wireguard-tools", "wireguard-go", "python3")
# A Raspberry Pi 4 has four Cortex-A72, a Pi 5 four Cortex-A76; the images have linux-image-arm64, too.
MACHINES = {
    "x86-64": (pc(counting=True), "linux-image-cloud-amd64"),
    "Cortex-A72": (arm("cortex-a72"), "linux-image-arm64"),
    "Cortex-A76": (arm("cortex-a76"), "linux-image-arm64"),
}
SCRIPT = """\
modprobe -a tun chacha20poly1305 algif_aead
echo BEGIN
python3 /tunnel_costs.py --json --megabytes 20 --rate 20
echo END
"""


@pytest.fixture(scope="module", params=MACHINES)
def costs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    machine, kernel = MACHINES[request.param]

    def made(work: Path) -> Path:
        root = debian_folder(work, (kernel, *PACKAGES), machine.architecture)
        shutil.copy(ROOT / "experiments/probes/tunnel_costs.py", root)
        return root

    found = re.search(r"BEGIN(.*)END", printed(tmp_path_factory, made, SCRIPT, 1800, machine), re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1][found[1].index("{") :]))


def per_byte(costs: dict[str, Any], way: str, rate: float | None) -> float:
    (found,) = [each for each in costs["costs"] if (each["way"], each["link_mbps"]) == (way, rate)]
    return float(found["cpu_s_per_gb"])


@pytest.mark.parametrize("rate", [None, 20])
def test_tunnels_cost_more_than_the_link(costs: dict[str, Any], rate: float | None) -> None:
    assert 0 < per_byte(costs, "link", rate) < min(per_byte(costs, way, rate) for way in ("wireguard", "wireguard-go"))


def test_the_kernel_s_costs_less_than_wireguard_go_where_packets_come_one_by_one(costs: dict[str, Any]) -> None:
    """By as fast as it goes they are about equal: wireguard-go has many packets at a time there."""
    assert per_byte(costs, "wireguard", 20) < 0.8 * per_byte(costs, "wireguard-go", 20)


def test_the_kernel_has_a_cipher_for_this_processor_and_takes_it(costs: dict[str, Any]) -> None:
    best, plain = costs["ciphers"]
    assert re.search("neon|simd", best["driver"])
    assert "generic" in plain["driver"]
    assert best["mb_per_s"] > 1.5 * plain["mb_per_s"]
