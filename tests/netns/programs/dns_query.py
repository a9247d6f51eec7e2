"""Asks the name server argv[1] at port argv[2] for a name, argv[3], of type argv[4], by udp or tcp, argv[5].

For a client of the network argv[6], if there is one. Prints the answer as JSON.
"""

import json
import socket
import struct
import sys
from ipaddress import ip_interface

from scapy.layers.dns import DNS, DNSQR, DNSRROPT, EDNS0ClientSubnet

server, port, name, kind, way = sys.argv[1:6]
asked = DNS(id=77, rd=0, qd=DNSQR(qname=name, qtype=kind))
if len(sys.argv) > 6:
    network = ip_interface(sys.argv[6])
    subnet = EDNS0ClientSubnet(family=1, source_plen=network.network.prefixlen, scope_plen=0, address=str(network.ip))
    asked.ar = DNSRROPT(rclass=1232, rdata=[subnet])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if way == "udp" else socket.SOCK_STREAM) as client:
    client.settimeout(5)
    client.connect((server, int(port)))
    if way == "udp":
        client.send(bytes(asked))
        told = DNS(client.recv(65535))
    else:
        client.sendall(struct.pack("!H", len(bytes(asked))) + bytes(asked))
        with client.makefile("rb") as stream:
            (length,) = struct.unpack("!H", stream.read(2))
            told = DNS(stream.read(length))
scopes = [each.scope_plen for record in told.ar or [] if record.type == 41 for each in record.rdata]
print(
    json.dumps(
        {
            "id": told.id,
            "code": told.rcode,
            "authoritative": bool(told.aa),
            "answers": sorted(str(each.rdata) for each in told.an or [] if each.type in (1, 28)),
            "ttl": sorted({each.ttl for each in told.an or []}),
            "authority": [each.type for each in told.ns or []],
            "scopes": scopes,
        }
    )
)
