"""What four papers found beside what was found here: a table in Markdown, from the readings that are published."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.study.folder import Record
from experiments.study.readings import Decision, Readings, Repeated, Verdict

MPTCP_PROXY = (
    "Pollalis, Charalampou, Sykas, Multipath TCP Proxy: Unshackling Network Nodes from Today's End-to-End Connection "
    "Principle (WWIC 2016)"
)
MINIPROXY = "Siracusano et al., On-the-Fly TCP Acceleration with Miniproxy (HotMiddlebox 2016)"
MOSTO = "MOSTO (JSAC 2017)"
PRISM = "Hayakawa et al., Prism: A Proxy Architecture for Datacenter Networks (SoCC 2017)"
_NOT_MEASURED = "not published yet"
_HEAD = """\
# The papers' figures, and ours

`scripts/experiment publish` writes this page from the readings beside it; what other commands measure is quoted from
the page that is named. "Same" and "differs" are what the verdicts of the experiment say; "undecided": the interval has
the bound in it. ± is half of a 95 % interval. Absolute figures of the papers are of other machines and links.
"""
_OUTCOMES = {
    Decision.HOLDS: "same",
    Decision.UNDECIDED: "undecided",
    Decision.DIFFERS: "differs",
    Decision.FAILS: "differs",
}
_WORST_FIRST = (Decision.FAILS, Decision.DIFFERS, Decision.UNDECIDED, Decision.HOLDS)


@dataclass(frozen=True)
class Row:
    """A figure of a paper: what it shows, what the paper found; and ``ours`` by ``experiment``, from its readings.

    The verdicts whose claims have all ``words`` say whether that is the same; where they do not, ``why`` explains it,
    unless a verdict does. Without an experiment, ``ours`` and ``outcome`` are what the page ``quoted`` has.
    """

    figure: str
    what: str
    theirs: str
    ours: Callable[[Readings], str] | str
    experiment: str = ""
    words: Sequence[str] = ()
    why: str = ""
    outcome: str = ""


_V4 = {"family": "ipv4"}


def _of(name: str, unit: str, **point: str) -> Callable[[Readings], str]:
    """The estimate of a value at some points."""
    return lambda readings: f"{readings.at(**point).estimate(name)} {unit}"


def _thousandth(name: str, unit: str, **point: str) -> Callable[[Readings], str]:
    """The same in a unit a thousand times as large."""
    return lambda readings: f"{readings.at(**point).estimate(name).scaled(1e-3)} {unit}"


def _all(*parts: Callable[[Readings], str] | str) -> Callable[[Readings], str]:
    """Texts and estimates, one after the other."""
    return lambda readings: "".join(part if isinstance(part, str) else part(readings) for part in parts)


def _mbps(**point: str) -> Callable[[Readings], str]:
    return _of("steady_mbps", "Mbit/s", **point)


def _mean(readings: Readings, name: str, **point: str) -> float:
    return readings.at(**point).estimate(name).mean


def _lost(readings: Readings, by: str, buffer: str) -> float:
    full, small = (_mean(readings, "steady_mbps", by=by, buffer=buffer, mtu=mtu, **_V4) for mtu in ("1500", "1000"))
    return 100 * (1 - small / full)


def _knees(readings: Readings) -> Mapping[int, Repeated]:
    from experiments.scenarios.buffer_mtu import knees

    return knees(readings)


def _sooner(proxies: str) -> Callable[[Readings], str]:
    def text(readings: Readings) -> str:
        direct, early = (_mean(readings, "whole_ms_25", by=by, proxies=proxies) for by in ("direct", "early SYN"))
        return f"{100 * (1 - early / direct):.1f} % sooner"

    return text


def _ratios(readings: Readings, by: str, than: str) -> list[float]:
    sizes = sorted({name for reading in readings for name in reading.values if name.startswith("whole_ms_")})
    found = [100 * (_mean(readings, name, by=by) / _mean(readings, name, by=than) - 1) for name in sizes]
    return [min(found), max(found)]


def _faster(readings: Readings) -> list[float]:
    return _ratios(readings, "direct", "3 converters")


def _behind(readings: Readings) -> list[float]:
    return _ratios(readings, "3 converters", "cdn")


def _gain(readings: Readings, size: str) -> float:
    ours = _mean(readings, "mbps", by="handoff", size=size)
    proxies = [readings.at(by=by, size=size).values("mbps") for by in ("nginx", "haproxy")]
    return ours / max(sum(each) / len(each) for each in proxies if each)


_PROCESS = "a process is started here, in the paper a virtual machine with its operating system: no comparison"

TABLE: Mapping[str, Sequence[Row]] = {
    MPTCP_PROXY: (
        Row(
            "figure 2",
            "legacy TCP over each link",
            "each link's own rate",
            _all(_mbps(link="wired", **_V4), " of 100, ", _mbps(link="wireless", **_V4), " of 20"),
            "legacy",
        ),
        Row(
            "figure 3",
            "both links by MPTCP",
            "no less than legacy TCP; the wireless link remains almost fully underutilized",
            _all(_mbps(by="native", **_V4), " in all: both links are full"),
            "multipath",
        ),
        Row(
            "figure 3, why",
            "a session's part of a bottleneck beside one connection of TCP",
            "coupled congestion control, which has it take no more than a half",
            _all(
                _of("share_percent", "% with one subflow, ", subflows="1"),
                _of("share_percent", "% with two", subflows="2"),
            ),
            "shared-bottleneck",
        ),
        Row(
            "figure 4",
            "receive buffer",
            "0.18 MB starve MPTCP, 0.72 MB do not; 0.48 MB are needed",
            _all(
                _mbps(by="native", buffer="180kB", **_V4),
                ", ",
                _mbps(by="native", buffer="480kB", **_V4),
                ", ",
                _mbps(by="native", buffer="720kB", **_V4),
                " with 0.18, 0.48, 0.72 MB",
            ),
            "buffer",
        ),
        Row(
            "section 3.3",
            "receiver memory over paths of commensurate delays",
            "close to zero",
            _all(
                _of("waiting_kb", "kB, ", difference="0s"),
                _of("waiting_kb", "kB where round trips differ by 80 ms", difference="80ms"),
            ),
            "delays",
            ("alike",),
        ),
        Row(
            "figure 5",
            "packets of 1000 bytes with 0.72 MB",
            "MPTCP loses more than legacy TCP; a larger buffer mends it",
            lambda readings: ", ".join(
                f"{_lost(readings, by, buffer):.1f} % by {by} with {buffer}"
                for by in ("native", "legacy")
                for buffer in ("720kB", "4MB")
                if readings.at(by=by, buffer=buffer, mtu="1000", **_V4).values("steady_mbps")
            ),
            "mtu",
            ("MPTCP loses more than legacy TCP",),
        ),
        Row(
            "section 3.4",
            "buffer needed by small packets",
            "a proportionate extension of TCP's memory",
            lambda readings: ", ".join(
                f"{mtu} bytes: {knee.estimate} MB" for mtu, knee in sorted(_knees(readings).items(), reverse=True)
            ),
            "buffer-mtu",
        ),
        Row(
            "figure 6a",
            "the first 5 MB",
            "throttled by itself after the join, once that has taken effect",
            _all(
                _of("enforcement_ms", "ms from join to hold; held path ", by="native", **_V4),
                _of("wired_after_mbps", "Mbit/s, other ", by="native", **_V4),
                _of("wireless_after_mbps", "Mbit/s", by="native", **_V4),
            ),
            "throttle-first",
        ),
        Row(
            "figure 6b",
            "the same again, policies installed",
            "throttled from the beginning",
            _all(
                _of("enforcement_ms", "ms from the join, which comes later; held path ", by="native", **_V4),
                _of("wired_after_mbps", "Mbit/s, other ", by="native", **_V4),
                _of("wireless_after_mbps", "Mbit/s", by="native", **_V4),
            ),
            "throttle-again",
        ),
        Row(
            "figure 7",
            "200 MB with the wired subflow throttled",
            "wireless faster than unthrottled, the whole slightly inferior, still faster than legacy TCP",
            _all(
                "wireless ",
                _of("wireless_after_mbps", "Mbit/s, ", by="native", held="always", **_V4),
                _of("wireless_after_mbps", "unthrottled; the whole ", by="native", held="never", **_V4),
                _of("mbps", "instead of ", by="native", held="always", **_V4),
                _of("mbps", "Mbit/s", by="native", held="never", **_V4),
            ),
            "throttle-long",
        ),
        Row(
            "table 1",
            "delay of a SYN; of data",
            "7.83 + 0.68 ms; 15.3 + 8.1 ms",
            _all(
                _thousandth("own_syn_p50_us", "ms; ", by="native", **_V4),
                _thousandth("data_p50_us", "ms by the native converter, ", by="native", **_V4),
                _thousandth("own_syn_p50_us", "ms; ", by="squid", **_V4),
                _thousandth("data_p50_us", "ms by Squid (medians)", by="squid", **_V4),
            ),
            "conversion-delay",
            why="another machine: the paper's proxy was Squid on a virtual machine",
            outcome="differs",
        ),
    ),
    MINIPROXY: (
        Row(
            "figure 3",
            "from start to first connection",
            "12 ms, with 6 MB",
            _of("start_ms", "ms, with 6 MB of resident memory", memory="unlimited", processor="unlimited"),
            "acceleration-start",
            why=_PROCESS,
            outcome="not comparable",
        ),
        *(
            Row(
                "figure 4",
                f"25 kB through so many proxies with early SYN forwarding: {proxies}",
                f"{theirs} % sooner",
                _sooner(proxies),
                "acceleration",
                ("25 kB", f"through {proxies} prox"),
            )
            for proxies, theirs in (("1", 33), ("2", 44), ("3", 49))
        ),
        Row(
            "figure 5",
            "a proxy off the path",
            "pays while the detour is short",
            "up to 32.5 ms a side of 25 (results page)",
            "acceleration-off-path",
        ),
        Row(
            "table 1",
            "a connection beside 230 others",
            "3 ms",
            _of("beside_ms", "ms", connections="230", by="converter"),
            "acceleration-setup",
        ),
        Row(
            "text",
            "a send buffer of twice the receive window",
            "is enough",
            _all(_of("rate_mbps", "Mbit/s; ", ratio="2"), _of("rate_mbps", "Mbit/s with half of it", ratio="0.5")),
            "acceleration-buffer",
        ),
        Row(
            "throughput",
            "through one core, beside Varnish",
            "1.05 times",
            "3.4 times ([converter-performance.md](../converter-performance.md))",
            outcome="better",
        ),
    ),
    MOSTO: (
        Row(
            "figure 3a",
            "one round of slow start",
            "as the shortest path; minimax over 40 % longer for 10 % of the pairs",
            _of("minimax_pairs_40_longer_percent", "% of the pairs", rounds="1"),
            "overlay-paths",
            ("one round",),
        ),
        *(
            Row(
                figure,
                f"{rounds} rounds, beside minimax",
                f"20 % of the pairs gain up to {gain} %, with {fewer} % fewer proxies",
                _all(
                    _of("minimax_pairs_longer_percent", "% of the pairs gain, with ", rounds=rounds),
                    _of("minimax_fewer_converters_percent", "% fewer converters", rounds=rounds),
                ),
                "overlay-paths",
                (f"{rounds} rounds, beside minimax",),
            )
            for figure, rounds, gain, fewer in (("figure 3b", "5", 15, 15), ("figure 3c", "10", 10, 14))
        ),
        Row(
            "figure 4",
            "a proxy leaves after slow start",
            "throughput dips, a timer ends; steps of 10 ms cure it",
            _all(
                _of("dip_ms", "ms of dip at a round trip of 20 ms, ", rtt="20", steps="none"),
                _of("timers", "timers without steps", rtt="20", steps="none"),
            ),
            "overlay-leave",
            why="no timer ends, with steps or without them, where the round trip grows by less than 200 ms",
            outcome="differs",
        ),
        Row(
            "figure 5",
            "short transfers, three proxies, beside none",
            "60 to 150 % faster",
            lambda readings: " to ".join(f"{each:.0f}" for each in _faster(readings)) + " % faster",
            "overlay-transfer",
            ("faster by three",),
        ),
        Row(
            "figure 5",
            "beside a CDN's warm connection",
            "one proxy 10 to 35 % behind, three equal",
            lambda readings: " to ".join(f"{each:.0f}" for each in _behind(readings)) + " % behind with three",
            "overlay-transfer",
            ("warm CDN",),
        ),
        Row(
            "section V-A",
            "chains of all pairs of 115 nodes",
            "under 1 s",
            "8 ms ([overlay-paths.md](../overlay-paths.md))",
            outcome="better",
        ),
    ),
    PRISM: (
        Row(
            "figure 4",
            "rewriting a packet of 60; of 1514 bytes",
            "60; 183 ns, 7.98; 66.3 Gbit/s on two processors",
            "140 ns by tc, 170 by XDP, whatever its size ([handoff-internals.md](../handoff-internals.md))",
            why="measured by BPF_PROG_TEST_RUN, without a network card: no rate",
            outcome="part",
        ),
        Row(
            "figure 5",
            "throughput by size of objects, beside a proxy",
            "more from 2 MB on",
            lambda readings: f"{_gain(readings, '2000000'):.2f} times at 2 MB, {_gain(readings, '64000'):.2f} at 64 kB",
            "handoff-sizes",
        ),
        Row(
            "throughput",
            "by number of back ends",
            "grows with it, the controller idles",
            _of("front_percent", "% of the answers' bytes pass the front with 8", by="handoff", back_ends="8"),
            "handoff-scale",
        ),
        Row(
            "table 1",
            "start; end; whole of a transfer of 2 MB",
            "754 us (directly 446, by a proxy 1,015); 185 us; 3,990 us",
            "`scripts/bench run handoff`: startup_us, teardown_us, latency_2mb_us",
            outcome=_NOT_MEASURED,
        ),
    ),
}


def table(records: Mapping[str, Record]) -> str:
    """The page, from the ``records`` of what is published, by the experiments' names."""
    return "".join(f"{line}\n" for line in _lines(records))


def _lines(records: Mapping[str, Record]) -> Iterator[str]:
    yield from _HEAD.splitlines()
    for paper, rows in TABLE.items():
        yield from ("", f"## {paper}", "")
        yield "| figure | what | the paper | ours | | why, by which experiment |"
        yield "|---|---|---|---|---|---|"
        for row in rows:
            yield f"| {' | '.join(_cells(row, records.get(row.experiment)))} |"


def _cells(row: Row, record: Record | None) -> list[str]:
    by = f"`{row.experiment}`" if row.experiment else ""
    if row.experiment and record is None:
        return [row.figure, row.what, row.theirs, "", _NOT_MEASURED, by]
    try:
        ours = row.ours(record.readings) if record and callable(row.ours) else str(row.ours)
    except KeyError:
        ours = "not with these options"
    outcome, because = _outcome(row, record.verdicts if record else ())
    why = ". ".join(part for part in (because or row.why, by) if part)
    return [row.figure, row.what, row.theirs, ours, outcome, why]


def _outcome(row: Row, verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Same or not, and the reason that a verdict has."""
    about = [verdict for verdict in verdicts if all(word in verdict.claim for word in row.words)]
    if row.outcome or not about:
        return row.outcome or _NOT_MEASURED, ""
    worst = min((verdict.decision for verdict in about), key=_WORST_FIRST.index)
    because = dict.fromkeys(verdict.because for verdict in about if verdict.differs)
    several = len({verdict.decision for verdict in about}) > 1 and worst is not Decision.UNDECIDED
    return f"{_OUTCOMES[worst]}{' in part' * several}", "; ".join(because)
