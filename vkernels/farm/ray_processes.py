"""Ray's own processes on this machine: those of the head, and those of a machine that joins."""

from __future__ import annotations

import ctypes
import importlib.util
import ipaddress
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from vkernels.autotune.measure.lock import BusyError, locked
from vkernels.ir.errors import FileError, OptionError, SetupError

from .ray_worker import LEAVE, OFFERS, PATH
from .records import Offer, encoded

LOOPBACK = "127.0.0.2"
"""Ray takes 127.0.0.1 for the machine's name in the network, and puts this address to use as it is."""
OBJECT_BYTES = 100 << 20
"""Ray's store for objects: answers are short."""
STOP_SECONDS, LOCK_SECONDS = 15.0, 60.0
START_LOCK = "farm-start"
"""Ray processes of one machine that start at the same moment take the same names."""
START_PAUSE, REJOIN_PAUSE = 6.0, 2.0
GROUP = "ray-group"
"""File with the process group of the head's Ray processes."""
GONE_SECONDS = 15
"""How long a machine tries to reach a head that is gone before it joins again."""
MAX_STARTS = 20
"""Attempts to start a head: while a machine on the same computer still looks for the one before, Ray refuses."""
STARTED, WRONG_TOKEN = "Ray runtime started", "InvalidAuthToken"
MAX_SAID = 1 << 20
"""What Ray prints where a machine has joined, and where its token is wrong; and bytes of it that are read."""
PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`."""


def check_ray() -> None:
    """Raise `SetupError` unless Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        raise SetupError("ray is not installed, and a farm needs it: pip install 'vkernels[farm]'")


def ray_host(host: str) -> str:
    """The address that Ray's processes use for a host."""
    if host == "localhost":
        return LOOPBACK
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return LOOPBACK
    return host


def environment(token: Path) -> dict[str, str]:
    """Variables of Ray's processes, which authenticate by the token in a file.

    Turns measure at the priority of `vk farm join`: Ray would lower it by 15, below all else that the machine does.
    """
    return {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": str(GONE_SECONDS),
        "RAY_worker_niceness": "0",
    }  # fmt: skip


def make_token(path: Path) -> None:
    """Write a new token that machines need to join, unless there is one."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))


def _end_with_parent() -> None:
    """In a new process: get SIGTERM when the thread that started it is gone, however that happened."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class RayProcess:
    """`ray start`, which stays as long as its processes do. For one thread."""

    process: subprocess.Popen[bytes]

    @staticmethod
    def start(arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> RayProcess:
        """Start it; what it prints goes to a file. Raises `SetupError`."""
        command = [
            sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block", "--num-cpus=0",
            "--num-gpus=0", f"--object-store-memory={OBJECT_BYTES}", "--disable-usage-stats", *arguments,
        ]  # fmt: skip
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                    env={**os.environ, **variables}, preexec_fn=_end_with_parent,
                )  # fmt: skip
        except OSError as error:
            raise SetupError(f"Ray cannot be started: {error}") from error
        return RayProcess(process)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """End it and all its processes."""
        if not self.has_ended:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_head(host: str, port: int, token: Path, folder: Path) -> RayProcess:
    """Start the head's Ray processes, which listen at a port. Raises `SetupError`."""
    arguments = [
        "--head", f"--node-ip-address={ray_host(host)}", f"--port={port}", "--include-dashboard=false",
        f"--temp-dir={_short_folder(folder)}",
    ]  # fmt: skip
    _end_earlier(folder)
    for _ in range(MAX_STARTS):
        with _start_lock(LOCK_SECONDS):
            started = RayProcess.start(arguments, environment(token), folder / "ray.log")
            (folder / GROUP).write_text(str(started.process.pid))
            _settle(started)
        if not started.has_ended:
            return started
        started.stop()
        time.sleep(REJOIN_PAUSE)
    raise SetupError(f"Ray's head does not start; {folder / 'ray.log'} has what it said")


def _end_earlier(folder: Path) -> None:
    """End what is left of the Ray processes of a head that was killed: they would hold the port."""
    with suppress(OSError, ValueError):
        group, ours = int((folder / GROUP).read_text()), str(_short_folder(folder)).encode()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                is_member = entry.name.isdigit() and os.getpgid(int(entry.name)) == group
                if is_member and ours in (entry / "cmdline").read_bytes():
                    os.killpg(group, signal.SIGKILL)
                    return


def _short_folder(folder: Path) -> Path:
    """A folder of this user whose path is short enough for Ray's sockets."""
    name = sha256(str(folder.resolve()).encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir()) / f"vkernels-ray-{os.getuid()}-{name}"


def join(
    address: str, token: Path, offers: Sequence[Offer], log: Path, patience: float,
    say: Callable[[str], object] = lambda text: None,
) -> None:  # fmt: skip
    """Lend this machine to the farm whose head's Ray is at `address`, HOST:PORT, until it stops.

    Where the connection ends without that, as when the head is restarted, the machine joins again, for `patience`
    seconds. What Ray says goes to `log`, whose folder is made. Raises `SetupError` if it cannot join for that long, and
    `FileError` without the token.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise OptionError(f"expected the address HOST:PORT, got {address!r}")
    if not token.is_file():
        raise FileError(f"{token}: there is no such file; copy the one that `vk farm start` named")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    counts = Counter[str]()
    for offer in offers:
        counts[offer.resource] += offer.count
    with tempfile.TemporaryDirectory(prefix="vkernels-farm-") as folder:
        leave = Path(folder) / "leave"
        path = json.dumps([folder for folder in sys.path if folder])
        variables = {**environment(token), OFFERS: encoded(list(offers)), LEAVE: str(leave), PATH: path}
        arguments = [f"--address={ray_host(host)}:{port}", f"--resources={json.dumps(counts)}"]
        arguments += [f"--node-ip-address={LOOPBACK}"] if ray_host(host) == LOOPBACK else []
        gone = time.monotonic()
        while not leave.exists():
            before = log.stat().st_size if log.exists() else 0
            with _start_lock(patience):
                joined = RayProcess.start(arguments, variables, log)
                began = time.monotonic()
                _settle(joined)
            has_joined = False
            try:
                while not joined.has_ended and not leave.exists():
                    if not has_joined and STARTED in _said(log, before):
                        has_joined = True
                        say(f"joined {address}")
                    time.sleep(0.2)
            finally:
                joined.stop()
            if not has_joined and WRONG_TOKEN in _said(log, before):
                raise SetupError(f"{address} refuses the token in {token}: copy the file that `vk farm start` named")
            if not has_joined and not leave.exists():
                say(f"{address} does not answer")
            now = time.monotonic()
            gone = now if now - began > 2 * START_PAUSE else gone
            if not leave.exists() and now - gone > patience:
                raise SetupError(f"{address}: no farm answered for {patience:.0f} s; {log} has what Ray said")
            time.sleep(0 if leave.exists() else REJOIN_PAUSE)
    say("the farm has stopped")


@contextmanager
def _start_lock(seconds: float) -> Iterator[None]:
    """Hold the lock of what starts. Raises `SetupError` if others hold it for so long."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked([START_LOCK], seconds))
        except BusyError:
            raise SetupError(f"other Ray processes of a farm were starting here for {seconds:.0f} s") from None
        yield


def _said(log: Path, begin: int) -> str:
    """What Ray has printed to a file since it had so many bytes."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(begin)
        return file.read(MAX_SAID).decode(errors="replace")
    return ""


def _settle(started: RayProcess) -> None:
    """Wait until a process has started what it starts, or has ended."""
    end = time.monotonic() + START_PAUSE
    while not started.has_ended and time.monotonic() < end:
        time.sleep(0.1)
