"""What a benchmark gives."""

from dataclasses import dataclass, field

from experiments.study.figures import Series


@dataclass(frozen=True)
class Result:
    """A finished benchmark.

    ``ratios`` are ours to each peer, larger is better; ``values`` have their unit in the key's name. ``missing`` are
    peers that were to be measured and whose programs are not here: there is no ratio to them.
    """

    series: tuple[Series, ...]
    ratios: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
