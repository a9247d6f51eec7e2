from experiments.testbed.network import node_names

NETWORK = """
# Two cables, and what is said to nodes.
*: sysctl -qw net.ipv4.ip_forward=1
client:wired 10.0.1.2/24 fd00:1::2/64 -- gateway:wired 10.0.1.1/24
gateway:core -- server:core
client gateway: ip rule add fwmark 1 lookup 99
observer:
"""


def test_nodes_are_those_that_cables_and_commands_name_in_their_order() -> None:
    assert node_names(NETWORK) == ["client", "gateway", "server", "observer"]
