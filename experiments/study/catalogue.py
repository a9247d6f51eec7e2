"""Every experiment, in the order in which a reader wants them."""

from experiments.scenarios import buffer, legacy, mtu, multipath, throttle_again, throttle_first, throttle_long

_MODULES = (
    legacy,
    multipath,
    buffer,
    mtu,
    throttle_first,
    throttle_again,
    throttle_long,
)

SCENARIOS = {module.SCENARIO.name: module.SCENARIO for module in _MODULES}
