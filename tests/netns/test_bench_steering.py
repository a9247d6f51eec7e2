"""The benchmark's receive packet steering, on the real kernel's cables."""

import os
from collections.abc import Iterator

import pytest

from experiments.bench.converter.steering import mask, steered
from experiments.testbed import cables
from experiments.testbed.build import Testbed, standing

ENDS = (("client", "path1"), ("gateway", "path1"), ("gateway", "core"), ("server", "core"))


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    with standing("steering", cables.IDLE) as testbed:
        cables.lay(testbed)
        yield testbed


def masks(testbed: Testbed) -> list[int]:
    files = [(testbed.node(node), f"/sys/class/net/{device}/queues/rx-0/rps_cpus") for node, device in ENDS]
    return [int(node.run("cat", file).replace(",", ""), 16) for node, file in files]


def test_the_clients_end_and_all_others_have_a_processor_each_for_the_length_of_the_block(testbed: Testbed) -> None:
    processors = sorted(os.sched_getaffinity(0))
    first, last = (int(mask(each).replace(",", ""), 16) for each in (processors[0], processors[-1]))
    with pytest.raises(RuntimeError), steered(testbed, processors):
        assert masks(testbed) == [first, last, last, last]
        raise RuntimeError
    assert masks(testbed) == [0, 0, 0, 0]
