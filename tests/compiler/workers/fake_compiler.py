"""Compilers that misbehave as they are told: a job's text is what one of them does. Workers are started with them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.ir.errors import SetupError

MISBEHAVING = f"{__name__}:misbehaving"
MISSING = f"{__name__}:missing"
ABSENT = f"{__name__}:absent"

_held: list[bytes] = []


def misbehaving():
    return act


def missing():
    _log_start()
    raise SetupError("no compiler is installed")


def absent():
    _log_start()
    sys.exit("gone before it began")


def _log_start() -> None:
    if file := os.environ.get("LOG_OF_STARTS"):
        _log(file, "started\n")


def act(text: str, architecture: str, options: GpuOptions) -> Binary:
    """Do what `text` says, a verb and its operand, and return a binary that tells of the process."""
    verb, _, operand = text.partition(" ")
    told = _ACTS[verb](operand)
    return binary(architecture, options, told if isinstance(told, str) else "")


def binary(architecture: str, options: GpuOptions, told: str) -> Binary:
    code = bytes(range(256))
    return Binary(
        architecture, "k\u00e4rn", code, told, 1, options.warps, 32 * options.warps, 0, 0, str(os.getpid()), "0"
    )


def _hang(file: str) -> None:
    """Without ever letting other Python threads run, as a compiler may that holds the interpreter's lock."""
    if file:
        Path(file).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)


def _spawn(file: str) -> None:
    """Start a child that ignores polite requests; tell both numbers."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
    )
    unfinished = Path(f"{file}.unfinished")
    unfinished.write_text(f"{os.getpid()} {child.pid}")
    unfinished.rename(file)


def _spawn_and_hang(file: str) -> None:
    _spawn(file)
    _hang("")


def _spawn_and_abort(file: str) -> None:
    _spawn(file)
    os.abort()


def _eat(_: str) -> None:
    pieces = []
    while True:
        pieces.append(b"x" * (8 << 20))


def _eat_in_child(_: str) -> None:
    subprocess.run([sys.executable, "-c", "p = []\nwhile True: p.append(b'x' * (8 << 20))"], check=True)


def _hold(_: str) -> None:
    _held.append(b"x" * (120 << 20))


def _abort(said: str) -> None:
    os.write(2, said.encode())
    os.abort()


def _flood(_: str) -> None:
    os.write(1, b"begun\n")
    for _ in range(200):
        os.write(2, b"y" * 49_999 + b"\n")
    os.write(2, b"ended\n")
    raise RuntimeError("flooded")


def _answer_nonsense(_: str) -> None:
    for number in range(3, 20):  # whichever is the pipe
        try:
            os.write(number, b"\xff" * 100)
        except OSError:
            continue
    time.sleep(600)


def _close_everything(_: str) -> None:
    os.closerange(0, 100)
    time.sleep(600)


def _raise(name: str) -> None:
    raise {"RuntimeError": RuntimeError, "MemoryError": MemoryError, "OSError": OSError, "KeyError": KeyError}[name](
        "so"
    )


def _refuse(message: str) -> None:
    raise RuntimeError(message)


def _leave_file(_: str) -> str:
    number, path = tempfile.mkstemp()
    os.close(number)
    return path


def _log(file: str, line: str = "compiled\n") -> None:
    with open(file, "a") as log:
        log.write(line)


_ACTS = {
    "compile": lambda told: told,
    "look-up": lambda name: os.environ.get(name, "not there"),
    "log": _log,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "exit": lambda status: os._exit(int(status)),
    "leave": lambda _: sys.exit(3),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda _: ctypes.string_at(0),
    "hang": _hang,
    "spawn": _spawn,
    "spawn-and-hang": _spawn_and_hang,
    "spawn-and-abort": _spawn_and_abort,
    "eat": _eat,
    "eat-in-child": _eat_in_child,
    "hold": _hold,
    "abort": _abort,
    "flood": _flood,
    "answer-nonsense": _answer_nonsense,
    "close-everything": _close_everything,
    "raise": _raise,
    "refuse": _refuse,
    "leave-file": _leave_file,
}
