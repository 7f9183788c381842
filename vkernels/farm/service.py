"""The process of a farm's head: Ray's head processes, the gateway, and the loop that hands out turns.

    python -m vkernels.farm.service FOLDER

`start` makes the folder and this process; the folder has all that outlives it.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vkernels.autotune.database.address import address_of, default_file
from vkernels.autotune.measure.lock import BusyError, locked
from vkernels.ir.errors import FileError, OptionError, SetupError
from vkernels.ir.write_file import write_file

from .client import LOGIN as LOGIN
from .client import Farm
from .order import Bounded, Fifo, Policy
from .power import Power, PowerSettings
from .queue import BOUND_SECONDS, TURN_SECONDS, Queue
from .ray_processes import LOOPBACK, check_ray, environment, make_token, ray_host, start_head
from .store import Store

SETTINGS, READY, TOKEN, STORE, LOG = "settings.json", "ready.json", "ray-token", "farm.sqlite", "head.log"
START_SECONDS = 150.0
CONNECT_SECONDS = 60.0
POLICIES = ("bounded", "fifo")


@dataclass(frozen=True)
class Settings:
    """How a farm runs. `port`: of the gateway; `ray_port`: of Ray's head; both 0 for any free one. `database`: of the
    results. `turn`, `bound`: seconds of a turn, and from a job's arrival to its end as the order keeps it. `wake`,
    `release`, `buffer`, `most`: see `PowerSettings`. `broker`: idle machines measure what was only modelled.
    """

    database: str
    host: str = "127.0.0.1"
    port: int = 0
    ray_port: int = 0
    policy: str = "bounded"
    turn: float = TURN_SECONDS
    bound: float = BOUND_SECONDS
    fairness: float = 1.0
    wake: str = ""
    release: str = ""
    buffer: int = 1
    most: int = 1000
    broker: bool = False

    def order(self) -> Policy:
        """The policy."""
        if self.policy not in POLICIES:
            raise OptionError(f"policy: expected {' or '.join(POLICIES)}, got {self.policy!r}")
        return Fifo() if self.policy == "fifo" else Bounded(self.turn, self.bound, self.fairness)


def start(folder: Path, settings: Settings, seconds: float = START_SECONDS) -> Farm:
    """Start the head of a farm as a process of its own; returns the farm as this user sees it.

    `folder`: made if it is absent; a farm that was stopped goes on there. Raises `SetupError` if it does not start,
    and `FileError` for a folder of another farm that runs.
    """
    check_ray()
    settings.order()
    if (file := address_of(settings.database).file) is not None:
        if ray_host(settings.host) != LOOPBACK:
            raise OptionError(
                "--db: other machines cannot write a file here; expected postgresql://USER@HOST:PORT/NAME"
            )
        if file == default_file():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.parent.is_dir():
            raise FileError(f"{file}: there is no folder {file.parent}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_running(folder):
        raise FileError(f"{folder}: a farm runs there already")
    (folder / READY).unlink(missing_ok=True)
    ports = _ports(folder, settings)
    (folder / SETTINGS).touch(mode=0o600)
    (folder / SETTINGS).chmod(0o600)  # the database's address may have a password
    write_file(folder / SETTINGS, json.dumps({**asdict(settings), **ports}, indent=1) + "\n")
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vkernels.farm.service", str(folder)], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip
    end = time.monotonic() + seconds
    while not (folder / READY).exists():
        if process.poll() is not None or time.monotonic() > end:
            with suppress(ProcessLookupError):
                process.terminate()
            raise SetupError(f"the farm did not start:\n{(folder / LOG).read_text()[-1500:].strip()}")
        time.sleep(0.1)
    return Farm.from_login(folder / LOGIN)


def is_running(folder: Path) -> bool:
    """Whether a head works in this folder."""
    try:
        with locked(["head"], 0.0, folder / "locks"):
            return False
    except BusyError:
        return True


def ray_address(folder: Path) -> str:
    """Where machines join, HOST:PORT. Raises `FileError`."""
    try:
        settings = json.loads((folder / SETTINGS).read_text())
        return f"{settings['host']}:{settings['ray_port']}"
    except (OSError, ValueError, KeyError) as error:
        raise FileError(f"{folder}: there is no farm: {error}") from None


def _ports(folder: Path, settings: Settings) -> dict[str, int]:
    """Ports that are given, were used before, or are free."""
    before: dict[str, int] = {}
    with suppress(OSError, ValueError):
        before = json.loads((folder / SETTINGS).read_text())
    return {
        name: getattr(settings, name) or int(before.get(name, 0)) or _free_port(settings.host)
        for name in ("port", "ray_port")
    }


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def serve(folder: Path) -> None:
    """Be the head of the farm in a folder until it is stopped."""
    settings = Settings(**json.loads((folder / SETTINGS).read_text()))
    with locked(["head"], 0.0, folder / "locks"):
        store = Store(folder / STORE)
        token = folder / TOKEN
        make_token(token)
        os.environ.update(environment(token))
        started = start_head(settings.host, settings.ray_port, token, folder)
        try:
            _serve(folder, settings, store)
        finally:
            started.stop()
            (folder / READY).unlink(missing_ok=True)
            store.close()


def _serve(folder: Path, settings: Settings, store: Store) -> None:
    _connect(f"{ray_host(settings.host)}:{settings.ray_port}")
    from .gateway import Gateway
    from .head import Head
    from .ray_cluster import RayCluster

    power = None
    if settings.wake or settings.release:
        power = Power(PowerSettings(settings.wake, settings.release, settings.buffer, settings.most))
    queue = Queue(settings.database, settings.order())
    head = Head(store, queue, RayCluster(), power=power, has_broker=settings.broker)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: head.stop())
    try:
        gateway = Gateway(head, settings.host, settings.port)
    except OSError as error:
        raise SetupError(f"{settings.host}:{settings.port} cannot be used: {error}") from error
    with gateway:
        name = getpass.getuser()
        Farm(gateway.address, name, store.add_user(name, is_admin=True)).to_login(folder / LOGIN)
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        write_file(folder / READY, json.dumps({"process": os.getpid(), "address": gateway.address}) + "\n")
        try:
            head.run()
        finally:
            gateway.shutdown()


def _connect(address: str) -> None:
    import ray

    end = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            ray.init(address=address, namespace="vkernels", log_to_driver=False, logging_level="ERROR")
            return
        except (ConnectionError, RuntimeError, ValueError) as error:
            if time.monotonic() > end:
                raise SetupError(f"Ray at {address} does not answer: {error}") from error
            time.sleep(0.5)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    try:
        serve(Path(sys.argv[1]))
    except (SetupError, FileError, OptionError) as error:
        sys.exit(f"error: {error}")
