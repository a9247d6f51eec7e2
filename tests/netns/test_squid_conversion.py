import socket
import time

import pytest

from tests.netns.squid_world import PROXY, PROXY6, SERVER, SERVER6, World, net, read_answer, start_squid
from tests.netns.world import eventually

__all__ = ["net"]

SOL_MPTCP, MPTCP_INFO = 284, 1  # include/uapi/linux/mptcp.h
FALLBACK = 1  # MPTCP_INFO_FLAG_FALLBACK, in the 32 bits after eight single bytes
SILENT = "203.0.113.66"  # routed to the server's link, where nobody answers for it


def is_mptcp(connection: socket.socket) -> bool:
    """Whether the kernel counts this connection as MPTCP and not as fallen back to TCP (RFC 8684 section 3.7)."""
    info = connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 16)
    return not int.from_bytes(info[8:12], "little") & FALLBACK


@pytest.mark.parametrize("proxy", [PROXY, PROXY6])
@pytest.mark.parametrize("server", [SERVER, f"[{SERVER6}]"])
@pytest.mark.smoke
def test_download_is_mptcp_for_the_client_and_tcp_for_the_server(
    net: World, proxy: tuple[str, int], server: str
) -> None:
    net.origin.body = bytes(range(256)) * 40_000
    with net.connect(proxy, protocol=socket.IPPROTO_MPTCP) as client:
        client.sendall(f"GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n".encode())
        assert is_mptcp(client)
        assert client.getsockopt(SOL_MPTCP, MPTCP_INFO, 16)[0] == 0  # beside the first subflow
        answer = read_answer(client, 20)
    assert (answer.status, answer.body == net.origin.body) == (200, True)
    assert [(syn.target, syn.port, syn.with_mptcp) for syn in net.syns()] == [(server.strip("[]"), 80, False)]


@pytest.mark.parametrize("server", [SERVER, f"[{SERVER6}]"])
def test_tunnel_is_mptcp_for_the_client_and_tcp_for_the_server(net: World, server: str) -> None:
    with net.connect(protocol=socket.IPPROTO_MPTCP) as client:
        client.sendall(f"CONNECT {server}:443 HTTP/1.1\r\nHost: {server}\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"there and back")
        assert client.recv(1000) == b"there and back"
        assert is_mptcp(client)
    assert [(syn.target, syn.port, syn.with_mptcp) for syn in net.syns()] == [(server.strip("[]"), 443, False)]


@pytest.mark.parametrize("gone", [False, True], ids=["client waits", "client is gone"])
def test_repeated_syns_to_a_silent_server_carry_no_mptcp(net: World, gone: bool) -> None:
    net.gateway.ip("neighbour", "replace", SILENT, "lladdr", "02:00:00:00:00:66", "dev", "servers")
    with net.connect() as client:
        client.sendall(f"GET http://{SILENT}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        seen = eventually(net.syns)
        if gone:
            client.close()
        # The first repetition comes after a second (RFC 6298 section 5.7); two seconds leave it room.
        time.sleep(2)
        seen += net.syns()
    assert {(syn.target, syn.with_mptcp) for syn in seen} == {(SILENT, False)}
    assert len(seen) >= (1 if gone else 2)


def test_a_cache_of_a_size_answers_by_itself_and_nothing_is_kept_without(net: World) -> None:
    """By plain TCP. Squids of two namespaces do not meet."""
    net.origin.fields, net.origin.body = b"Cache-Control: max-age=600\r\n", b"keep me"
    with start_squid(net.client, net.directory, 'cache = "64MB"\ndrain = "0s"\n', "cached"):
        for proxy, asked in ((("127.0.0.1", 3128), 1), (PROXY, 2)):
            for _ in range(2):
                assert net.ask("GET", f"http://{SERVER}/kept", proxy=proxy).body == b"keep me"
            assert len(net.origin.take()) == asked
    assert net.ask("GET", f"http://{SERVER}/").status == 200
