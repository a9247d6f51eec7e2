"""A name server for tests, and who asks one."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from scapy.layers.dns import DNS, DNSQR

from experiments.testbed.node import Node
from tests.netns.world import datagrams_at


class Names:
    """A name server: ``records`` has addresses by name, or a function that gives them anew for each question.

    Questions for the types in ``lost`` (1 for A, 28 for AAAA), and for the names in ``silent``, are not answered; those
    for the types in ``late`` after so many seconds; those for the names in ``failing`` by SERVFAIL.
    """

    def __init__(self, node: Node, address: str) -> None:
        self.records: dict[str, list[str] | Callable[[], list[str]]] = {}
        self.asked: list[tuple[str, int]] = []
        self.lost: set[int] = set()
        self.silent: set[str] = set()
        self.failing: set[str] = set()
        self.late: dict[int, float] = {}
        with node.entered():
            family, _, _, _, at = socket.getaddrinfo(address, 53, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind(at)
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def forget(self) -> None:
        for each in (self.records, self.asked, self.lost, self.silent, self.failing, self.late):
            each.clear()

    def close(self) -> None:
        # A close alone would leave the thread in recvfrom(2), and the port taken.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                question, client = self._socket.recvfrom(512)
                if not question:
                    return
                answer = self._answer(question)
                name, kind = self.asked[-1]
                if kind in self.late:
                    threading.Timer(self.late[kind], self._send, (answer, client)).start()
                elif kind not in self.lost and name not in self.silent:
                    self._socket.sendto(answer, client)

    def _send(self, answer: bytes, client: tuple[str, int]) -> None:
        with suppress(OSError):
            self._socket.sendto(answer, client)

    def _answer(self, message: bytes) -> bytes:
        """RFC 1035 section 4.1, for questions of type A and AAAA alone, with a time to live of zero."""
        labels, at = [], 12
        while length := message[at]:
            labels.append(message[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question, kind = message[12 : at + 5], int.from_bytes(message[at + 1 : at + 3], "big")
        name = ".".join(labels).lower()
        self.asked.append((name, kind))
        known = self.records.get(name)
        found = known() if callable(known) else known or []
        family, length = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        records = [socket.inet_pton(family, text) for text in found if (":" in text) == (kind == 28)]
        code = 2 if name in self.failing else 0 if known is not None else 3
        head = message[:2] + bytes([0x81, 0x80 | code])
        fixed = b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1" + bytes(4) + length.to_bytes(2, "big")
        counts = b"\0\1" + len(records).to_bytes(2, "big") + bytes(4)
        return head + counts + question + b"".join(fixed + record for record in records)


def looked_up(node: Node, name: str, server: str, source: str = "") -> list[str] | None:
    """The IPv4 addresses of ``name`` that ``server`` tells ``node``; None if it says nothing."""
    with datagrams_at(node, at=(source, 0), to=(server, 53)) as client:
        try:
            client.send(bytes(DNS(id=77, rd=1, qd=DNSQR(qname=name))))
            answer = DNS(client.recv(512))
        except OSError:
            return None
    return [each.rdata for each in answer.an or []]
