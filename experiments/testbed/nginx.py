"""nginx(8) on any node."""

from experiments.testbed.node import Node, Process

_CONFIGURATION = """\
daemon off;
user root;
pid {files}.pid;
error_log stderr error;
worker_processes {workers};
events {{ worker_connections 4096; }}
http {{
    access_log off;
{temporary}{http}}}
"""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def start_nginx(node: Node, name: str, http: str, workers: str = "1") -> Process:
    """It, with this content of its http block; it may not listen yet."""
    files = node.directory / name
    temporary = "".join(f"    {kind}_temp_path {files}-{kind};\n" for kind in _TEMPORARY)
    text = _CONFIGURATION.format(files=files, workers=workers, temporary=temporary, http=http)
    return node.start(name, ["nginx", "-c", str(node.write(f"{name}.conf", text)), "-e", "stderr"])
