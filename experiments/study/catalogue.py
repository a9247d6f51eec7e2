"""Every experiment, in the order in which a reader wants them."""

from experiments.scenarios import legacy, multipath

SCENARIOS = {scenario.name: scenario for scenario in (legacy.SCENARIO, multipath.SCENARIO)}
