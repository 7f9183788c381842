"""Children that prepare and compile as they are told, so that tests of checking need no compiler."""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import fields

from vkernels.compiler.backends.resources import InstructionMix, Resources
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.compiler.binaries.read_code import BinaryReading
from vkernels.inspect.cases import KernelCase, KernelSource

PREPARER = f"{__name__}:preparer"
COMPILER = f"{__name__}:compiler"

NONE = InstructionMix(**{field.name: 0 for field in fields(InstructionMix)})


def case(plans, name="fake", **by_architecture):
    """A case whose plans are lists of launches, dictionaries that say what `compiler` does; the first for all targets
    but those of the architectures named: a number of a plan, or a message why there is none."""
    told = {"plans": plans, "targets": by_architecture}
    return KernelCase(KernelSource(name, module="fake"), "float32", {"N": 1}, {}, constants={"told": json.dumps(told)})


def preparer(send):
    def answer(data: bytes) -> bytes:
        request = json.loads(data)
        told = json.loads(request["constants"]["told"])
        numbers = [told["targets"].get(target["architecture"], 0) for target in request["targets"]]
        answer = {
            "targets": [
                {"launches": n} if isinstance(n, int) else {"error": "PlanError", "message": n} for n in numbers
            ],
            "launches": [
                [{"name": f"launch {n}", "text": json.dumps(launch), "options": {"warps": 4, "stages": 1}}
                 for n, launch in enumerate(plan)]
                for plan in told["plans"]
            ],
        }  # fmt: skip
        return json.dumps(answer).encode()

    return answer


def compiler():
    def compile_(text: str, architecture: str, options: GpuOptions) -> Binary:
        told = json.loads(text)
        if "log" in told:
            with open(told["log"], "a") as log:
                log.write(f"{architecture}\n")
        if told.get("act") == "hang":
            ctypes.PyDLL(None).sleep(600)
        if told.get("act") == "abort":
            os.abort()
        if told.get("act") == "refuse":
            raise RuntimeError("no such thing as this")
        if told.get("act") == "eat":
            held = []
            while True:
                held.append(b"x" * (8 << 20))
        return binary(text, told.get("threads", 128))

    return compile_


def binary(text: str, threads: int) -> Binary:
    return Binary("", "k", text.encode(), "", 0, threads // 32, threads, 0, 0, "", "")


def read_binary(binary: Binary, artifacts: object) -> BinaryReading:
    """What the binary of `compiler` was told to take."""
    told = json.loads(binary.code)
    return reading(**{name: told[name] for name in told if name in Resources.__dataclass_fields__})


def reading(**given) -> BinaryReading:
    return BinaryReading(resources(**given), None, "it is no binary")


def resources(**given) -> Resources:
    plain = {field.name: 0 for field in fields(Resources) if field.name != "mix"}
    return Resources(**{**plain, "registers": 32, **given}, mix=NONE)


PLAIN_COMPILER = f"{__name__}:plain_compiler"


def plain_compiler():
    """Takes any text."""
    return lambda text, architecture, options: binary("{}", 32 * options.warps)
