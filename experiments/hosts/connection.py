"""One SSH connection to each machine: the caretaker talks over it, and every command runs over it (ssh_config(5))."""

import json
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.hosts.caretaker import MARK, folder_of, version
from experiments.hosts.settings import HostSettings
from tributary import cargo
from tributary.settings.errors import CommandError, Exit

_BREATH = 5.0  # seconds between two signs of life: a sixth of the silence that the caretaker takes for the end
_CONNECT_SECONDS = 10
_END_SECONDS = 40  # the caretaker waits for processes twice, and then puts back what they used
_OPTIONS = ("BatchMode=yes", f"ConnectTimeout={_CONNECT_SECONDS}", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_LOST = 255
"""ssh(1) exits with this if the connection, and not the command, failed."""


@dataclass(frozen=True)
class Login:
    """How to reach one machine: ``role`` and ``settings`` say which, ``control`` is the connection's socket."""

    role: str
    settings: HostSettings
    ssh_config: str | None
    control: Path

    def __str__(self) -> str:
        return f"{self.role} ({self.settings})"

    def master(self, *words: str) -> list[str]:
        """``words`` for its shell, over a new connection that others can use."""
        return self._ssh("ControlMaster=yes", "ControlPersist=no") + list(words)

    def over(self, *words: str) -> list[str]:
        """``words`` for its shell, over the connection that stands; never over another one."""
        return self._ssh("ControlMaster=no", "ProxyCommand=false") + list(words)

    def _ssh(self, *more: str) -> list[str]:
        settings = self.settings
        options = [*_OPTIONS, f"ControlPath={self.control}", *more]
        if settings.identity:
            options.append(f"IdentityFile={settings.identity}")
        return [
            *("ssh", "-T", *(("-F", self.ssh_config) if self.ssh_config else ())),
            *(("-l", settings.user) if settings.user else ()),
            *(("-p", str(settings.port)) if settings.port else ()),
            *(word for option in options for word in ("-o", option)),
            settings.host,
        ]


@dataclass(frozen=True)
class Host:
    """A machine that is connected; ``about`` is what its caretaker said of it, ``tag`` names what runs there."""

    login: Login
    tag: str
    about: dict[str, Any]
    _caretaker: subprocess.Popen[str]
    _speaking: threading.Lock
    silence: int
    """Standard input for commands: open and silent until the connection is given up."""

    @property
    def directory(self) -> Path:
        return folder_of(self.tag)

    @property
    def cache(self) -> Path:
        """Where the checkout there keeps what takes long to make."""
        return Path(self.about["cache"])

    def command(self, words: Sequence[str]) -> list[str]:
        """``words`` as a command here that runs them there, in the checkout, until standard input closes."""
        checkout = self.login.settings.checkout
        variables = [f"{name}={value}" for name, value in self.about["environment"].items()]
        leash = [self.about["python"], "-I", f"{checkout}/experiments/hosts/leash.py"]
        return self.login.over(shlex.join(["env", "-C", checkout, *variables, f"{MARK}={self.tag}", *leash, *words]))

    def tell(self, **what: object) -> None:
        """Tell the caretaker; raises CommandError (exit 71) with its complaints, 69 if the connection is gone."""
        with self._speaking, suppress(OSError):
            assert self._caretaker.stdin is not None and self._caretaker.stdout is not None
            self._caretaker.stdin.write(json.dumps(what) + "\n")
            self._caretaker.stdin.flush()
            if answer := self._caretaker.stdout.readline():
                if complaints := json.loads(answer):
                    raise CommandError(Exit.IN_USE if "keep" in what else Exit.SYSTEM, f"{self.login}: {complaints[0]}")
                return
        raise self.lost()

    def breathe(self, ended: threading.Event) -> None:
        """Give a sign of life now and then until ``ended``, or until nobody takes it."""
        assert self._caretaker.stdin is not None
        with suppress(OSError, ValueError):
            while not ended.wait(_BREATH):
                with self._speaking:
                    self._caretaker.stdin.write("\n")
                    self._caretaker.stdin.flush()

    def lost(self) -> CommandError:
        remedy = "it puts everything back by itself within a minute: look after the network, and run it again"
        return CommandError(Exit.UNAVAILABLE, f"{self.login}: the connection broke: {remedy}")

    def failure(self, words: Sequence[str], code: int, complaint: str) -> CommandError:
        if code == _LOST:
            return self.lost()
        return CommandError(Exit.SYSTEM, f"{self.login}: {' '.join(words)}: {complaint or f'exit code {code}'}")


@contextmanager
def connected(login: Login, name: str, silence: int) -> Iterator[Host]:
    """The machine for the length of the block; raises CommandError if it cannot be reached, or misses something.

    Exit 69 for what is not there, 77 for a key that is refused and for somebody who is not root.
    """
    tag = f"{name}-{login.role}"
    checkout = shlex.quote(login.settings.checkout)
    start = f"cd {checkout} && exec scripts/python -m experiments.hosts.caretaker {tag}"
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            login.master(start),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            # Ctrl-C is for us, who then end it.
            start_new_session=True,
        ) as caretaker,
    ):
        assert caretaker.stdin is not None and caretaker.stdout is not None
        ended = threading.Event()
        try:
            # What a shell says when it starts is none of it.
            said = next((line for line in caretaker.stdout if line.startswith("{")), None)
            if said is None:
                caretaker.stdin.close()
                code = caretaker.wait(_END_SECONDS)
                complaints.seek(0)
                raise unreached(login, code, complaints.read().splitlines())
            host = Host(login, tag, checked(login, json.loads(said)), caretaker, threading.Lock(), silence)
            breath = threading.Thread(target=host.breathe, args=(ended,), daemon=True)
            breath.start()
            yield host
        finally:
            ended.set()
            _end(caretaker)


def _end(caretaker: subprocess.Popen[str]) -> None:
    """Closing its standard input makes the caretaker put everything back, and the connection end with it."""
    assert caretaker.stdin is not None
    with suppress(OSError, ValueError):
        caretaker.stdin.close()
    try:
        caretaker.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        caretaker.kill()


def unreached(login: Login, code: int, complaints: Sequence[str]) -> CommandError:
    """Why nobody answered, and what to do about it."""
    last = next((line for line in reversed(complaints) if line.strip()), "no answer")
    at, checkout = login.settings, login.settings.checkout
    if code != _LOST:
        why = f"no Tributary that runs in {checkout}: {last}: clone it there, and run scripts/setup"
        return CommandError(Exit.UNAVAILABLE, f"{login}: {why}")
    if "Permission denied" in last:
        why = f"no key is accepted: {last}: ssh {at} must not have to ask"
        return CommandError(Exit.NO_PERMISSION, f"{login}: {why}")
    if "Host key verification failed" in last:
        return CommandError(Exit.NO_PERMISSION, f"{login}: its host key is not known: connect once: ssh {at}")
    return CommandError(Exit.UNAVAILABLE, f"{login}: cannot be reached: {last}: accepted: what ssh {at} reaches")


def checked(login: Login, about: dict[str, Any]) -> dict[str, Any]:
    """What a caretaker said, if the machine has all that its role takes."""
    checkout, converter, missing = login.settings.checkout, about["converter"], ", ".join(about["missing"])
    if about["user"] != 0:
        why = "not root: accepted: user = 'root', with a key in its authorized_keys"
        raise CommandError(Exit.NO_PERMISSION, f"{login}: {why}")
    if about["version"] != version():
        why = (
            f"{checkout} is another version of Tributary ({about['version']}, here {version()}):"
            " check out the same commit there, and run scripts/setup"
        )
    elif login.role != "server" and not about["mptcp"]:
        why = "its kernel has no MPTCP (CONFIG_MPTCP): Debian's since 11 have it"
    elif missing:
        why = f"not found: {missing}: run {checkout}/scripts/setup there"
    elif login.role == "gateway" and converter != cargo.sources():
        is_here = "was built from other sources" if converter else "not found"
        build = f"{checkout}/scripts/setup.d/programs {about['cache']} --released tributary-converter tributary-load"
        why = f"tributary-converter: {is_here}: run {build} there"
    else:
        return about
    raise CommandError(Exit.UNAVAILABLE, f"{login}: {why}")
