"""Goes with data of port 3128 unread, and so closes all subflows at once (__mptcp_close() of net/mptcp/protocol.c)."""

import select
import socket
import sys

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect((sys.argv[1], 3128))
connection.sendall(b"20000\n")
select.select([connection], [], [])
