"""How etcd is reached: arguments of this and of the control plane's program."""

from pathlib import Path

from tributary.settings.cli import Arguments


def add_arguments(command: Arguments) -> None:
    """Add those for etcd to a command's; its function gets them as the program's, ``reached``."""
    about = "etcd's members (default: %(default)s)"
    command.add_argument("--endpoints", default="http://127.0.0.1:2379", metavar="URL,...", help=about)
    command.add_argument("--identity", type=Path, metavar="FOLDER", help="the folder that enrol made, with https")
    about = "allow http to etcd on other machines: only in a network that nobody else can reach"
    command.add_argument("--insecure-transport", action="store_true", help=about)
    command.gather("reached", arguments)


def arguments(endpoints: str, identity: Path | None, insecure_transport: bool = False) -> list[str]:
    """Those for the program: etcd's URLs separated by commas, and the folder of the identity."""
    secure = [f"--identity={identity}"] if identity else []
    return [f"--endpoints={endpoints}", *secure, *(["--insecure-transport"] if insecure_transport else [])]
