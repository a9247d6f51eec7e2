"""Who answers a stranger: python -m experiments.probes.knock ADDRESS SECONDS tcp/PORT udp/PORT ...

Prints, as JSON, those of the ports from which anything at all came back in so many seconds: a connection, a refusal, a
datagram, an ICMP message. What is sent by UDP begins as a handshake of WireGuard's does (wireguard.com/protocol).
"""

import errno
import json
import os
import socket
import sys
import time

_INITIATION = b"\1\0\0\0" + os.urandom(144)
_SILENCE = (errno.EINPROGRESS, errno.EAGAIN)


def knock(address: str, seconds: float, ports: list[str]) -> list[str]:
    """Those of ``ports`` that answer."""
    opened = {each: _opened(address, each) for each in ports}
    time.sleep(seconds)
    answers = [each for each, made in opened.items() if _answered(made, each)]
    for made in opened.values():
        made.close()
    return answers


def _opened(address: str, port: str) -> socket.socket:
    protocol, _, number = port.partition("/")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM)
    made.setblocking(False)
    made.connect_ex((address, int(number)))
    if protocol == "udp":
        made.send(_INITIATION)
    return made


def _answered(made: socket.socket, port: str) -> bool:
    try:
        if port.startswith("udp"):
            made.recv(1)
        else:
            # Without a peer it still asks.
            made.getpeername()
    except OSError as error:
        refused = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if error.errno == errno.ENOTCONN else 0
        return error.errno not in (*_SILENCE, errno.ENOTCONN) or bool(refused)
    return True


if __name__ == "__main__":
    print(json.dumps(knock(sys.argv[1], float(sys.argv[2]), sys.argv[3:])))
