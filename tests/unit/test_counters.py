from experiments.testbed.counters import parse

NETSTAT = """\
TcpExt: SyncookiesSent TCPTimeouts
TcpExt: 0 7
MPTcpExt: MPCapableSYNRX OFOQueue
MPTcpExt: 2 30
"""


def test_names_are_those_of_nstat() -> None:
    found = parse(NETSTAT)
    assert (found["TcpExtTCPTimeouts"], found["MPTcpExtMPCapableSYNRX"], found["MPTcpExtOFOQueue"]) == (7, 2, 30)


def test_what_the_kernel_lacks_counts_as_none() -> None:
    assert parse(NETSTAT)["MPTcpExtFromTheFuture"] == 0
