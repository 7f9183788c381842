"""TTIR becomes binaries for every architecture of the table, with no GPU here, on whichever Triton is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import triton

from vkernels.compiler.backends.architectures import KNOWN_VERSIONS, architectures
from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir
from vkernels.ir.errors import SetupError

from .texts import COPY, F32, POINTERS, REVERSE, N, compiled, kernel, matmul

VERSION = triton.__version__
TARGETS = Path(__file__).parents[4] / "shared" / "facts" / "targets.json"
COMPILED = [name for name, reason in architectures(VERSION).items() if not reason]
MISSING = [name for name, reason in architectures(VERSION).items() if reason]
COMMON = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120"]
COMMON += ["sm_121", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"]
OPTIONS = GpuOptions(warps=4, stages=2)

FUSIBLE = kernel(f"""
    %v = tt.load %x : {POINTERS}
    %two = arith.constant dense<3.0> : {F32}
    %product = arith.mulf %v, %two : {F32}
    %sum = arith.addf %product, %v : {F32}
    tt.store %out, %sum : {POINTERS}
""")
FUSED = FUSIBLE.replace("%product = arith.mulf %v, %two", "%sum = math.fma %v, %two, %v").replace(
    f"    %sum = arith.addf %product, %v : {F32}\n", ""
)


def elf_machine(code: bytes) -> int:
    return int.from_bytes(code[18:20], "little")


@pytest.mark.parametrize("architecture", COMMON)
def test_a_copy_compiles(architecture: str) -> None:
    binary = compiled(COPY, architecture)
    assert binary.code[:4] == b"\x7fELF"
    assert elf_machine(binary.code) == (190 if architecture.startswith("sm_") else 224)
    assert binary.name == "kernel"
    assert binary.architecture == architecture
    assert (binary.shared, binary.tensor_memory, binary.global_scratch) == (0, 0, 0)
    assert binary.triton == VERSION
    assert "tt.load" in binary.ttgir


@pytest.mark.parametrize(
    ("architecture", "spelled"),
    [("sm_75", ".target sm_75"), ("sm_90", ".target sm_90"), ("gfx942", "gfx942"), ("gfx1100", "gfx1100")],
)
def test_the_code_is_for_the_architecture(architecture: str, spelled: str) -> None:
    assert spelled in compiled(COPY, architecture).assembly


@pytest.mark.parametrize(("architecture", "width"), [("sm_80", 32), ("gfx942", 64), ("gfx1100", 32)])
@pytest.mark.parametrize("warps", [1, 8])
def test_threads_are_those_of_the_warps(architecture: str, width: int, warps: int) -> None:
    binary = compiled(COPY, architecture, warps=warps)
    assert (binary.warps, binary.threads) == (warps, warps * width)


def test_stages_and_scratchpad_show_in_shared_memory() -> None:
    one, three = (compiled(matmul(64, 64, 32), "sm_80", stages=stages) for stages in (1, 3))
    assert three.shared > one.shared
    small, large = (compiled(REVERSE, "sm_80", scratch=scratch) for scratch in (4 * N, 8 * N))
    assert large.shared - small.shared == 4 * N


@pytest.mark.slow
def test_what_fits_no_device_is_reported_not_raised() -> None:
    assert compiled(REVERSE, "sm_80", scratch=10**6).shared >= 10**6
    assert compiled(matmul(128, 512, 64, accumulators=2), "sm_100").tensor_memory > 512


def test_same_text_gives_same_code() -> None:
    for architecture in ("sm_80", "gfx942"):
        first, again = (compile_ttir(REVERSE, architecture, GpuOptions(4, 2, 4 * N)) for _ in range(2))
        assert first == again


def test_threads_may_compile_at_once() -> None:
    wanted = [compiled(COPY, name) for name in ("sm_80", "gfx942")]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: compile_ttir(COPY, name, OPTIONS), ["sm_80", "gfx942"] * 4))
    assert found == wanted * 4


@pytest.mark.parametrize("architecture", ["sm_80", "sm_100", "gfx942", "gfx1100"])
def test_nothing_is_fused_but_what_the_text_fuses(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does an environment variable of Triton's change that."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    fma = re.compile(r"^\s*(fma\.|v_(pk_|dual_)?fma)", re.MULTILINE)
    assert not fma.search(compile_ttir(FUSIBLE, architecture, OPTIONS).assembly)
    assert fma.search(compile_ttir(FUSED, architecture, OPTIONS).assembly)


def test_an_environment_variable_does_not_change_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm90")
    assert compile_ttir(COPY, "sm_80", OPTIONS) == compiled(COPY, "sm_80")


def test_no_file_is_left(tmp_path: Path) -> None:
    """Neither in Triton's cache nor among temporary files."""
    script = (
        "from tests.compiler.backends.texts import COPY\n"
        "from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir\n"
        "for name in ('sm_80', 'gfx942'):\n"
        "    assert compile_ttir(COPY, name, GpuOptions(4, 2)).code\n"
    )
    places = {name: tmp_path / name for name in ("HOME", "TRITON_CACHE_DIR", "TRITON_HOME", "TMPDIR")}
    for place in places.values():
        place.mkdir()
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=root, check=True, timeout=120)
    assert [path for place in places.values() for path in place.rglob("*")] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("module {", "error: expected"),
        (COPY.replace("arith.muli %first", "arith.muli %nothing").replace("%i, %four", "%i, %i2"), "undeclared"),
        (COPY.replace("tt.load %x", "tt.loud %x"), "tt.loud"),
        (COPY.replace(f"tt.load %x : {POINTERS}", "tt.load %x : tensor<7x!tt.ptr<f32>>"), "error"),
    ],
)
def test_text_that_mlir_refuses_says_why(text: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as error:
        compile_ttir(text, "sm_80", OPTIONS)
    assert reason in str(error.value)
    assert re.search(r"kernel\.ttir:\d+:\d+: error: ", str(error.value))
    assert compiled(COPY, "sm_80").code  # and the next one compiles


def test_scratchpad_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(RuntimeError, match="scratchpad"):
        compile_ttir(REVERSE, "sm_80", OPTIONS)


@pytest.mark.parametrize("warps", [0, 3, -4])
def test_warps_must_be_a_power_of_two(warps: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        GpuOptions(warps=warps, stages=2)


@pytest.mark.parametrize("architecture", MISSING)
def test_what_this_triton_lacks_is_refused_beforehand(architecture: str) -> None:
    with pytest.raises(SetupError, match=f"Triton {re.escape(VERSION)} does not compile for {architecture}: .+"):
        compile_ttir("no text at all", architecture, OPTIONS)


@pytest.mark.parametrize("architecture", ["sm_12", "gfx1", "cpu", "sm_90a", ""])
def test_an_unknown_architecture_is_refused(architecture: str) -> None:
    with pytest.raises(SetupError, match="not tried"):
        compile_ttir(COPY, architecture, OPTIONS)


@pytest.mark.parametrize("version", ["3.5.1", "3.10.0", "4.0", "", "git"])
def test_an_unknown_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(SetupError, match=re.escape(f"Triton {version} is not")):
        architectures(version)


@pytest.mark.skipif(not TARGETS.exists(), reason="the shared facts are not here")
@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_the_table_knows_every_devices_architecture(version: str) -> None:
    table = architectures(version)
    found = []
    for device in json.loads(TARGETS.read_text())["devices"]:
        target = device["triton_target"]
        if target:
            found.append(f"sm_{target['arch']}" if target["backend"] == "cuda" else target["arch"])
    assert set(found) <= set(table)
    assert len(set(found)) == 18
    assert sum(not table[name] for name in set(found)) >= 17


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", COMPILED)
def test_every_architecture_of_the_table_compiles(architecture: str) -> None:
    assert compiled(COPY, architecture).code
    assert compiled(matmul(64, 64, 32), architecture).code


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", [name for name in MISSING if name != "sm_101"])
def test_every_missing_architecture_of_the_table_fails(architecture: str) -> None:
    """In a child process: compilers abort. sm_101 is left out, since it may hang or take the machine's memory."""
    script = (
        "from unittest import mock\n"
        "from tests.compiler.backends.texts import COPY\n"
        "from vkernels.compiler.backends import triton_adapter as adapter\n"
        "with mock.patch.object(adapter, 'refuse_unless_compiles'):\n"
        f"    adapter.compile_ttir(COPY, {architecture!r}, adapter.GpuOptions(4, 2))\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, timeout=120)
    assert done.returncode != 0
    assert b"RuntimeError" in done.stderr or b"LLVM ERROR" in done.stderr
