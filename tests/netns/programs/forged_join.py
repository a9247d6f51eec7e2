"""A join with the token in argv[1] from an address that nobody has, argv[2], whose third ACK has a wrong HMAC."""

import socket
import sys

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from tributary.wire.options import MpJoinAck, MpJoinSyn, Option, emit

token, source, gateway = int(sys.argv[1], 16), sys.argv[2], sys.argv[3]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("wired", 3))


def send(flags: str, seq: int, ack: int, option: Option) -> None:
    data = emit(option)
    # The options go as Scapy's payload, under a header whose offset counts them in; so the checksum covers them.
    header = TCP(sport=5555, dport=3128, flags=flags, seq=seq, ack=ack, dataofs=5 + len(data) // 4)
    wire.send(bytes(Ether(dst=gateway) / IP(src=source, dst="10.0.1.1") / header / data))


send("S", 1000, 0, MpJoinSyn(False, 9, token, b"abcd"))
while True:
    answer = Ether(wire.recv(2000))
    if TCP in answer and answer[TCP].dport == 5555 and answer[IP].dst == source:
        break
assert answer[TCP].flags == "SA", answer[TCP].flags
send("A", 1001, answer[TCP].seq + 1, MpJoinAck(bytes(20)))
