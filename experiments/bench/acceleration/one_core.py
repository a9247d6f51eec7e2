"""One download through one processor, by plain TCP: what a converter moves, beside its peers."""

import os
from collections.abc import Callable
from contextlib import ExitStack

from experiments.bench.converter.contenders import NATIVE, every_contender
from experiments.bench.pair import NAME
from experiments.bench.processors import kept_to
from experiments.testbed.cables import laid_out
from experiments.testbed.native import Programs

PEERS = ("varnish", "haproxy", "nginx")


def one_core(programs: Programs, size: int, repetitions: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Mbit/s of ours and each of PEERS that is here, once a repetition; the next one has them the other way round.

    Contenders have the last processor; all else, client and origin and benchmark, is left to the others if there are
    any.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    with kept_to(others or [last]), laid_out(programs, NAME) as blueprint, ExitStack() as stack:
        contenders = [each for each in every_contender(blueprint) if each.name in (NATIVE, *PEERS) and not each.missing]
        reached: dict[str, list[float]] = {each.name: [] for each in contenders}
        for contender in contenders:
            stack.enter_context(contender.running(blueprint, "taskset", "--cpu-list", str(last), mptcp=False))
        for repetition in range(repetitions):
            for contender in contenders[:: -1 if repetition % 2 else 1]:
                told = blueprint.load("bulk", "--bytes", str(size), *contender.route)
                figure = told["bits_per_second"] / 1e6
                say(f"one core, {contender.name}: {figure:.0f} Mbit/s")
                reached[contender.name].append(figure)
    return reached
