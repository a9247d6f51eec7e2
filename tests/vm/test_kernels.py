"""Each part on each kernel that users have: it starts and passes a file, or refuses by name."""

import json

import pytest

from experiments.testbed import native
from tests.vm.machine import emulated, printed, root_folder
from tests.vm.said import SHELL, section
from tributary.paths import ROOT

KERNELS = {"bookworm": "6.1", "noble": "6.8", "trixie": "6.12"}
EXAMPLES = sorted(path.name for path in (ROOT / "converter/examples").glob("*.toml"))

pytestmark = emulated(2400)

# Slow and long links: under software emulation a packet costs far more time than on a real one.
SCRIPT = (
    SHELL
    + r"""
python=/var/cache/tributary/python/bin/python
bin=/var/cache/tributary/bin
said kernel uname -r
mkdir -p /var/log/tributary-converter
for example in converter/examples/*.toml; do
    ip netns add example
    ip -n example link set lo up
    # The addresses and devices that the examples name.
    ip -n example link add wan0 type dummy
    ip -n example link set wan0 up
    ip netns exec example $bin/tributary-converter --config "$example" >/tmp/example.log 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        if grep -qx ready /tmp/example.log || ! kill -0 $pid 2>/dev/null; then break; fi
        sleep 0.2
    done
    kill $pid 2>/dev/null
    wait $pid
    said "$(basename "$example")" cat /tmp/example.log
    ip netns delete example
done
# An emulator that gets no processors for a while is given another try: Squid has 30 s to listen.
for _ in 1 2; do
    $python -m experiments.demo --json --size 2MB --tolerance 30% \
        --set wired.rate=12mbit --set wired.delay=20ms --set wireless.rate=4mbit --set wireless.delay=30ms \
        >/tmp/summary.json 2>/tmp/demo.log
    [ $? -gt 1 ] || break # 1: it is too slow for what is claimed of real machines
done
said demo cat /tmp/summary.json
said demo-log tail -n 5 /tmp/demo.log
$python -m experiments.handoff demo --json --size 1MB >/tmp/handoff.json 2>/tmp/handoff.log
echo "hand-off ended with $?"
said handoff cat /tmp/handoff.json
said handoff-log tail -n 5 /tmp/handoff.log
$python -m pytest -q -p no:cacheprovider --no-skips tests/netns/test_converter_offload.py \
    -k "offloaded_half_way or longer_than_the_converter" >/tmp/offload.log 2>&1
echo "offload ended with $?"
said offload tail -n 25 /tmp/offload.log
"""
)


@pytest.fixture(scope="module", params=KERNELS)
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The suite, and what its guest printed."""
    native.hand_off()
    suite = request.param
    return suite, printed(tmp_path_factory, lambda work: root_folder(work, suite=suite), SCRIPT, seconds=1200)


def test_it_is_the_kernel_that_the_release_comes_with(guest: tuple[str, str]) -> None:
    suite, console = guest
    assert section(console, "kernel").startswith(f"{KERNELS[suite]}.")


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_converter_starts_as_it_is(guest: tuple[str, str], example: str) -> None:
    text = section(guest[1], example)
    assert "ready" in text.splitlines(), text


def test_files_pass_squid_converter_and_throttler(guest: tuple[str, str]) -> None:
    text = section(guest[1], "demo")
    assert text, section(guest[1], "demo-log")
    summary = json.loads(text)
    for download in ("legacy_wired", "legacy_wireless", "mptcp", "mptcp_native", "mptcp_throttled"):
        assert summary[download]["sha256_ok"], download
    assert {subflow["path"] for subflow in summary["mptcp"]["subflows"] if subflow["bytes"]} == {"wired", "wireless"}


def test_requests_are_handed_over_with_their_connections(guest: tuple[str, str]) -> None:
    assert "hand-off ended with 0" in guest[1], section(guest[1], "handoff-log")


def test_connections_are_left_to_the_kernel(guest: tuple[str, str]) -> None:
    assert "offload ended with 0" in guest[1], section(guest[1], "offload")
