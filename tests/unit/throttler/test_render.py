from pathlib import Path

import pytest

from tests.unit.throttler.test_plan import assignment
from throttler import dry_run
from throttler.policy import model
from throttler.policy.decide import ClassRates
from throttler.policy.values import Direction
from throttler.shaping import render
from throttler.shaping.plan import ClassTable
from throttler.shaping.render import Kernel, Leaf
from throttler.shaping.topology import Link, Topology, topology

POLICIES = Path(__file__).parents[3] / "tc-policies"
WIRED = Topology((Link(0, "wired", Direction.DOWNLOAD, None),))


@pytest.mark.parametrize("file", sorted(POLICIES.glob("*.toml")), ids=lambda file: file.stem)
def test_the_plan_of_each_policy_is_its_golden_file(file: Path) -> None:
    # After a wanted change: throttler plan tc-policies/X.toml > tc-policies/golden/X.txt
    golden = POLICIES / "golden" / f"{file.stem}.txt"
    assert dry_run.text(model.read(file)) == golden.read_text()


@pytest.mark.parametrize(
    ("rate", "frame", "leaf", "text"),
    [
        (5, 1514, Leaf.FQ_CODEL, "fq_codel flows 1 target 5000us"),
        (1, 1514, Leaf.FQ_CODEL, "fq_codel flows 1 target 24224us"),
        (5, 1514, Leaf.TBF, "tbf rate 100000000000bit burst 3028b limit 7570b"),
        (100, 1514, Leaf.TBF, "tbf rate 100000000000bit burst 3028b limit 125000b"),
        (5, 9014, Leaf.TBF, "tbf rate 100000000000bit burst 18028b limit 45070b"),
    ],
)
def test_the_queue_fits_the_rate_and_the_frame(rate: int, frame: int, leaf: Leaf, text: str) -> None:
    rates = ClassRates(rate * 10**6, rate * 10**6, 3)
    plan = ClassTable().step({7: [assignment(1, rates=rates)]}, 0)
    lines = render.before_elements(plan, WIRED, Kernel(leaf, {"wired": frame}))
    assert lines.splitlines()[1] == f"qdisc add dev wired parent 5452:1 {text}"


def test_elements_of_a_step_go_in_one_line_a_map_and_leave_before_others_enter() -> None:
    table = ClassTable()
    table.step({7: [assignment(1), assignment(2)]}, 0)
    plan = table.step({7: [], 8: [assignment(3), assignment(4)]}, 0)
    assert [line.split()[:5] for line in render.elements(plan).splitlines()] == [
        ["delete", "element", "inet", "throttler", "download4"],
        ["delete", "element", "inet", "throttler", "classes"],
        ["add", "element", "inet", "throttler", "classes"],
        ["add", "element", "inet", "throttler", "download4"],
    ]


def test_a_reload_adds_links_and_leaves_those_that_stand(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    one = '[paths.a]\ninterface = "a0"\n[paths.b]\ninterface = "b0"\n'
    file.write_text(one + '[[rules]]\nname = "r"\npath = "b"\nrate = "1mbit"\n')
    before = topology(model.read(file))
    file.write_text(one + '[links.b0]\nupload = "9mbit"\n[[rules]]\nname = "r"\npath = "a"\nrate = "1mbit"\n')
    after = topology(model.read(file), before)
    assert {link.interface: link.number for link in before.links} == {"b0": 1}
    assert [(link.interface, str(link.direction), link.rate, link.number) for link in after.links] == [
        ("b0", "download", None, 1),
        ("a0", "download", None, 0),
        ("b0", "upload", 9_000_000, 1),
    ]
    assert render.roots(before, after).splitlines() == [
        "qdisc add dev a0 root handle 5452: htb default f001",
        "qdisc add dev tributary-up root handle 5452: htb default 0",
    ]
