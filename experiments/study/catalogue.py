"""Every experiment, in the order in which a reader wants them."""

from experiments.scenarios import (
    acceleration,
    acceleration_buffer,
    acceleration_off_path,
    acceleration_setup,
    acceleration_start,
    buffer,
    conversion_delay,
    failover,
    grid,
    integrity,
    latency,
    legacy,
    mtu,
    multipath,
    throttle_again,
    throttle_first,
    throttle_long,
)

_MODULES = (
    legacy,
    multipath,
    buffer,
    mtu,
    throttle_first,
    throttle_again,
    throttle_long,
    conversion_delay,
    grid,
    failover,
    latency,
    integrity,
    acceleration,
    acceleration_off_path,
    acceleration_buffer,
    acceleration_setup,
    acceleration_start,
)

SCENARIOS = {module.SCENARIO.name: module.SCENARIO for module in _MODULES}
