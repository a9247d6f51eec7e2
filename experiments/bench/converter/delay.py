"""The conversion delay: how long packets stay in a contender, by timestamps on both of its sides."""

import json
import sys
from statistics import median
from typing import Any

from experiments.bench.converter.contenders import Contender
from experiments.testbed.cables import CLIENT_SIDE, SERVER_SIDE, Cabling
from tributary.settings.failure import Exit, Failure

_ONE_AT_A_TIME = ("--clients", "1", "--pause", "2", "--mptcp")


def conversion_microseconds(cabling: Cabling, contender: Contender, seconds: float) -> dict[str, float]:
    """Medians: ``syn_us``, ``data_us`` (a connection's first data), ``kept_data_us`` (later ones), ``reply_us``.

    One new connection after the other, each with one request, and then requests on one that is kept.
    """
    probe = [sys.executable, "-m", "experiments.probes.conversion", CLIENT_SIDE, SERVER_SIDE]
    load = (*contender.route, *_ONE_AT_A_TIME, "--seconds", str(seconds))
    with cabling.testbed.gateway.start("conversion", probe).wait_until_ready() as process:
        # A connection to the origin that was kept would have no SYN.
        cabling.load("connect", *load, "--fresh")
        cabling.load("requests", *load)
        process.stop(30)
        told: dict[str, Any] = json.loads(process.output().splitlines()[-1])
    if told["lost"]:
        raise Failure(Exit.WRONG_RESULT, f"the probe lost {told['lost']} packets: no figure can be trusted")
    kinds = {"syn_us": "syn", "data_us": "first_data", "kept_data_us": "data", "reply_us": "reply"}
    empty = [kind for kind in kinds.values() if not told[kind]]
    if empty:
        raise Failure(Exit.WRONG_RESULT, f"{contender.name}: the probe saw no {empty[0]} on both sides")
    return {name: median(told[kind]) for name, kind in kinds.items()}
