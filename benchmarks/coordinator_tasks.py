"""Tasks that share a CPU in the benchmarks of the coordinator: one that calls and sleeps, one that calls in a loop."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Protocol

import torch

import vkernels as vk
from vkernels import library


def softmax(rows: int, columns: int) -> Callable[[], object]:
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    return lambda: library.softmax(x, out=out)


def layer_norm(rows: int, columns: int) -> Callable[[], object]:
    x, weight, bias = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)
    return lambda: library.layer_norm(x, weight, bias)


def matmul(size: int) -> Callable[[], object]:
    a, b = torch.randn(size, size), torch.randn(size, size)
    return lambda: library.matmul(a, b)


HIGH = {
    "layer_norm 64×1024": lambda: layer_norm(64, 1024),
    "softmax 512×1024": lambda: softmax(512, 1024),
    "matmul 256³": lambda: matmul(256),
    "softmax 2048×4096": lambda: softmax(2048, 4096),
}
LOW = {
    "layer_norm 64×1024": lambda: layer_norm(64, 1024),
    "matmul 1024³": lambda: matmul(1024),
    "softmax 4096×4096": lambda: softmax(4096, 4096),
}
"""Short ones and long ones, bound by arithmetic, by caches and by memory."""


class Count(Protocol):
    """Calls of the low task so far; one thread writes it."""

    value: int


def low_task(call: Callable[[], object], setting: str, is_over: threading.Event, done: Count) -> None:
    """`setting`: of the low task, "low" or "normal" for ours."""
    if setting == "idle class":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with vk.priority("low") if setting == "low" else vk.priority("normal") if setting == "normal" else nullcontext():
        while not is_over.is_set():
            call()
            done.value += 1


class Beside:
    """The low task in a thread of this process."""

    def __init__(self, name: str, done: Count):
        self.call, self.done = LOW[name](), done
        for _ in range(30):
            self.call()

    def start(self, setting: str) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=low_task, args=(self.call, setting, self._is_over, self.done))
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Apart:
    """The low task in a process of its own, which may serve several pairs of tasks."""

    def __init__(self, name: str, cores: int):
        context = multiprocessing.get_context("spawn")
        self.done: Count = context.RawValue("q")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=other_process, args=(name, cores, theirs, self.done), daemon=True)
        self._process.start()
        self._pipe.recv()

    def start(self, setting: str) -> None:
        self._pipe.send(setting)
        self._pipe.recv()

    def stop(self) -> None:
        self._pipe.send("stop")
        self._pipe.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def other_process(name: str, cores: int, pipe: Connection, done: Count) -> None:
    use_cores(cores)
    task = Beside(name, done)
    pipe.send("ready")
    while True:
        task.start(pipe.recv())
        pipe.send("started")
        pipe.recv()
        task.stop()
        pipe.send("stopped")


def use_cores(number: int) -> None:
    """Let this process use the first so many of its cores."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:number]))
    vk.set_threads(number)
    torch.set_num_threads(number)
