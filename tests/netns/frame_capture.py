"""Writes the head of each frame that an interface of this namespace sends or receives, until its input ends.

    python -m tests.netns.frame_capture FILE

Prints ``ready``; FILE then has one frame a line, in hexadecimal, cut off behind the longest TCP header that there is.
"""

import selectors
import socket
import sys
from pathlib import Path

_ETH_P_ALL, _SO_RCVBUFFORCE = 0x0003, 33
_HEAD = 14 + 40 + 60
"""Bytes of Ethernet, IPv6 and TCP with all of its options."""


def main(file: Path) -> None:
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as frames,
        selectors.DefaultSelector() as selector,
        file.open("w", buffering=1) as written,
    ):
        frames.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
        selector.register(frames, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while sys.stdin not in (ready := {key.fileobj for key, _ in selector.select()}):
            assert ready == {frames}
            written.write(f"{frames.recv(_HEAD).hex()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
