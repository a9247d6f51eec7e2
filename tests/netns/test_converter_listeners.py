"""Settings of the native converter's listeners: whom they serve, and at which addresses."""

import subprocess

import pytest

from tests.netns.converter_clients import request, take_head
from tests.netns.converter_services import answer
from tests.netns.converter_world import CLIENTS, GATEWAY, GATEWAY6, MPTCP, SERVER, World, needs_tools

pytestmark = needs_tools


def test_user_and_password_are_asked_for_where_there_are_users(conv: World) -> None:
    users = (
        CLIENTS + '[[listen]]\nkind = "socks5"\nname = "socks5"\naddress = "[::]:1080"\nusers = { one = "secret" }\n'
    )
    with conv.converter(users), conv.serving(answer) as service:

        def curl(login: str) -> int:
            command = ["curl", "-sS", "-m", "5", "-x", f"socks5://{login}{GATEWAY}:1080"]
            at = f"http://{SERVER}:{service.port}/"
            return subprocess.run(conv.client.command([*command, at]), capture_output=True, check=False).returncode

        assert curl("one:secret@") == 0
        assert curl("one:wrong@") == 97
        assert curl("") == 97
        assert len(service.peers) == 1


@pytest.mark.parametrize("address", [GATEWAY, GATEWAY6])
def test_listener_can_be_one_family_s_alone(conv: World, address: str) -> None:
    at = f"[{address}]:3128" if ":" in address else f"{address}:3128"
    with conv.converter(CLIENTS + f'[[listen]]\nkind = "http"\naddress = "{at}"\n'):
        conv.connect(address, 3128, MPTCP).close()
        with pytest.raises(ConnectionRefusedError):
            conv.connect(GATEWAY6 if address == GATEWAY else GATEWAY, 3128)


def test_converter_is_no_open_proxy_by_default(conv: World) -> None:
    """Without client networks it serves its own machine, at loopback alone."""
    default = '[[listen]]\nkind = "http"\naddress = "127.0.0.1:3129"\n'
    conv.intercept("")
    with conv.converter(default + '[metrics]\naddress = "127.0.0.1:9099"\n'), conv.serving(answer) as service:
        with pytest.raises(ConnectionError):
            conv.connect(GATEWAY, 3129)
        with conv.connect("127.0.0.1", 3129, node=conv.gateway) as connection:
            connection.sendall(request("absolute", SERVER, service.port))
            assert take_head(connection).startswith(b"HTTP/1.1 200 ")
