"""The main job on Debian 13's own kernel, with sch_netem and fq_codel: the other half of the feature probes."""

import json

import pytest

from tests.vm.machine import emulated, printed, root_folder
from tests.vm.said import section

pytestmark = [
    *emulated(3000),
    # Software emulation in real time: a hypervisor may take the processors away for a minute.
    pytest.mark.flaky(reruns=2, reruns_delay=45),
]

# Slow and long links: under software emulation a packet costs far more time than on a real one.
DEMO = r"""
python=/var/cache/tributary/python/bin/python
watch_leaf() { while sleep 1; do tc -n trib-demo-gateway qdisc show dev wired; done 2>/dev/null; }
watch_leaf | grep --line-buffered fq_codel >/tmp/leaf &
$python -m experiments.demo --json --keep --size 3MB --tolerance 20% \
    --set wired.rate=12mbit --set wired.delay=20ms --set wireless.rate=4mbit --set wireless.delay=30ms \
    >/tmp/summary.json
echo "demo ended with $?"
echo BEGIN summary; cat /tmp/summary.json; echo; echo END summary
echo BEGIN link; tc -n trib-demo-link-wired qdisc show; echo END link
echo BEGIN leaf; head -n 1 /tmp/leaf; echo END leaf
gateway="ip netns exec trib-demo-gateway"
$gateway $python -m throttler set both-ways path=wired direction=both rate=1mbit dscp=cs1
echo BEGIN upload
$gateway tc qdisc show dev tributary-up
$gateway nft list table netdev throttler
echo END upload
$python -m experiments.testbed down --name demo
echo BEGIN delay
# A stall of the emulator delays both alike.
for _ in 1 2 3; do
    $python -m experiments.bench run queueing-delay --quick --most-stolen 100% --json >/tmp/delay.json || continue
    $python -c 'import json, sys; measured = json.load(sys.stdin); print(json.dumps(measured["values"]))
sys.exit(measured["ratios"]["delay_pfifo_vs_throttler"] <= 1.1)' </tmp/delay.json && break
done
echo END delay
cat >/tmp/converter.toml <<EOF
[clients]
networks = ["127.0.0.0/8"]
[targets]
allow = ["203.0.113.80/32"]
[limits]
connections_per_client = 6000
[control]
socket = "/tmp/converter.sock"
EOF
ip link set lo up
ip address add 203.0.113.80 dev lo
sysctl -qw net.ipv4.ip_local_port_range="1024 65535"
ulimit -n 100000
bin=/var/cache/tributary/bin
$bin/tributary-load origin --listen 203.0.113.80:8080 >/tmp/origin.log &
$bin/tributary-converter --config /tmp/converter.toml >/tmp/converter.log &
converter=$!
while ! grep -q ready /tmp/converter.log; do sleep 0.1; done
before=$(awk '/VmRSS/ {print $2}' /proc/$converter/status)
# It says so when all stand and live, and holds them until its input ends.
mkfifo /tmp/release
$bin/tributary-load idle-connections --connections 5000 --to 203.0.113.80:8080 --via-connect 127.0.0.1:3128 --mptcp \
    </tmp/release >/tmp/held.log &
load=$!
exec 3>/tmp/release
for _ in $(seq 1000); do [ ! -s /tmp/held.log ] || break; sleep 0.2; done
after=$(awk '/VmRSS/ {print $2}' /proc/$converter/status)
$bin/tributary-converter status --json --socket /tmp/converter.sock | grep open_connections
echo BEGIN held; cat /tmp/held.log; echo "$before $after"; echo END held
kill -TERM $load
wait $load
kill -TERM $converter
wait $converter
echo "converter ended with $?"
kill %?origin
ip address delete 203.0.113.80/32 dev lo
ip link set lo down
# The folder of sockets and locks stays, empty.
echo BEGIN left; ip netns list; find /run -path "*tributary*" ! -path /run/tributary; nft list ruleset; echo END left
"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory, lambda work: root_folder(work, released=True), DEMO, seconds=1200)


def test_the_demo_does_its_job(console: str) -> None:
    summary = json.loads(section(console, "summary"))
    for download in ("legacy_wired", "legacy_wireless", "mptcp", "mptcp_native", "mptcp_throttled"):
        assert summary[download]["sha256_ok"], download
    assert {subflow["path"] for subflow in summary["mptcp"]["subflows"] if subflow["bytes"]} == {"wired", "wireless"}
    held = next(subflow for subflow in summary["mptcp_throttled"]["subflows"] if subflow["path"] == "wired")
    # Held to 5. An emulated processor takes longer until the hold is there, and what passes before counts here as well.
    assert held["wire_mbps"] <= 5 * 1.2


def test_the_converter_holds_five_thousand_connections_in_ten_kilobytes_each(console: str) -> None:
    held, resident = section(console, "held").splitlines()
    assert json.loads(held)["connections"] == 5_000
    assert '"open_connections": 5000' in console
    before, after = (int(kilobytes) for kilobytes in resident.split())
    assert (after - before) / 5_000 < 10
    assert "converter ended with 0" in console


def test_links_are_made_by_netem(console: str) -> None:
    assert "netem" in section(console, "link")


def test_the_held_subflow_has_an_fq_codel_leaf(console: str) -> None:
    assert "fq_codel" in section(console, "leaf")


def test_uploads_take_the_way_round_through_an_ifb_device(console: str) -> None:
    text = section(console, "upload")
    assert "qdisc htb 5452: root" in text
    assert 'fwd to "tributary-up"' in text


def test_a_held_class_with_fq_codel_delays_its_packets_less_than_a_long_queue(console: str) -> None:
    text = section(console, "delay")
    measured = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert measured, f"no benchmark ended well:\n{text}"
    assert measured[-1]["delay_pfifo_ms"] > 1.1 * measured[-1]["delay_throttler_ms"], text


def test_nothing_is_left_after_down(console: str) -> None:
    assert section(console, "left") == ""
