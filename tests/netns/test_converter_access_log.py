"""The native converter's access log."""

from tests.netns.converter_clients import hears, opened, request, take_head
from tests.netns.converter_services import answer
from tests.netns.converter_world import ALL, GATEWAY, MPTCP, SERVER, TCP, World, needs_tools
from tests.netns.throttler_world import eventually

pytestmark = needs_tools


def test_access_log_has_one_object_a_line_and_paths_of_multipath_clients(conv: World) -> None:
    with conv.converter(ALL + '[paths]\nwired = ["10.0.1.0/24"]\n') as converter, conv.serving(answer) as service:
        for protocol in (TCP, MPTCP):
            with opened(conv, "socks5", SERVER, service.port, protocol) as client:
                client.sendall(request("socks5", SERVER, service.port))
                take_head(client)
        eventually(lambda: len(converter.lines()) == 2)
        plain, multi = converter.lines()
        assert "paths" not in plain
        assert [path["path"] for path in multi["paths"]] == ["wired"]
        assert plain["client"].startswith("10.0.1.2:")
        assert plain["server"] == plain["target"] == f"{SERVER}:{service.port}"
        converter.write(ALL)
        (converter.directory / "access").rename(converter.directory / "rotated")
        converter.reload(ALL)
        assert hears(conv, "connect", GATEWAY, 1) == "403"
        eventually(lambda: len(converter.lines()) == 1)
