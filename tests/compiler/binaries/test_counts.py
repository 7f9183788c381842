"""Loops of compiled kernels do what their texts say: multiply-adds, bytes and trips, on every architecture."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from tests.compiler.backends.texts import F32, I32, POINTERS, N, compiled, kernel, matmul
from tests.ir.lowering.ttir import lowering
from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.resources import read_resources
from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.compiler.binaries.instructions import Kind
from vkernels.compiler.binaries.launch_loops import launch_loops
from vkernels.compiler.binaries.match_loops import copied_bytes, trips_of
from vkernels.compiler.binaries.read_amdgcn import read_amdgcn
from vkernels.compiler.binaries.read_code import KernelCode, read_binary, read_code
from vkernels.compiler.binaries.read_sass import disassemble, read_sass
from vkernels.compiler.binaries.source_loops import read_source
from vkernels.compiler.binaries.static_bound import DEVICE_MEMORY, MEMORY, TENSOR, LaunchWork, loop_cycles, static_bound
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import FileError
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import print_ttir
from vkernels.ir.plan import Plan
from vkernels.targets import known_targets, limits_of

NVIDIA = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]
AMD = ["gfx90a", "gfx942", "gfx950", "gfx1100"]
DEVICE = {target.architecture: target for target in known_targets().values()}
STEPS = 1024


def counted(text: str, binary: Binary) -> tuple[KernelCode, list[float | None]]:
    """The code, and trips of its regions for `STEPS` steps."""
    code, source = read_code(binary), read_source(text)
    return code, trips_of(code, source, source.trips({"steps": STEPS}))


def copies(loads: int) -> str:
    """Each step loads `loads` tiles of 1024 floats and adds them up."""
    lines = [
        f"%p{n} = tt.addptr %p, %step{n} : {POINTERS}, {I32}\n%v{n} = tt.load %p{n} : {POINTERS}\n"
        f"%t{n + 1} = arith.addf %t{n}, %v{n} : {F32}\n%step{n} = arith.constant dense<{N * n}> : {I32}"
        for n in range(loads)
    ]
    lines = ["\n".join(sorted(line.split("\n"), key=lambda each: "constant" not in each)) for line in lines]
    return kernel(f"""
    %zero = arith.constant dense<0.0> : {F32}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %steps = arith.constant {STEPS} : i32
    %next = arith.constant dense<{N * loads}> : {I32}
    %end:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%t0 = %zero, %p = %x) -> ({F32}, {POINTERS}) : i32 {{
{chr(10).join(lines)}
      %q = tt.addptr %p, %next : {POINTERS}, {I32}
      scf.yield %t{loads}, %q : {F32}, {POINTERS}
    }}
    tt.store %out, %end#0 : {POINTERS}
""")


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
@pytest.mark.parametrize("sides", [(128, 64, 64), (64, 128, 32)])
def test_a_loop_multiplies_as_often_as_its_dots_say(architecture: str, sides: tuple[int, int, int]) -> None:
    text = matmul(*sides)
    code, trips = counted(text, compiled(text, architecture))
    found = [
        (often, sum(each.multiply_adds(code.warps) for each in region.tensor), region.parent)
        for region, often in zip(code.regions, trips, strict=True)
    ]
    assert any(each for _, each, parent in found if parent is not None), "no loop with matrix instructions"
    total = sum((often or 0) * each for often, each, _ in found)
    assert total == pytest.approx(prod(sides) * STEPS, rel=0.002), "trips before and after the loop included"
    assert not any(region.unknown_tensor for region in code.regions)


@pytest.mark.parametrize("architecture", ["sm_80", "gfx90a", "gfx942"])
def test_products_that_warps_repeat_are_no_trips(architecture: str) -> None:
    text = matmul(16, 16, 64)
    code, trips = counted(text, compiled(text, architecture))
    moved = sum(
        (often or 0) * sum(region.bytes.get(kind, 0) for kind in (Kind.GLOBAL_LOAD, Kind.COPY))
        for region, often in zip(code.regions, trips, strict=True)
    )
    assert moved * code.warps * code.threads == pytest.approx(2 * 2 * 16 * 64 * STEPS, rel=0.01)
    multiplied = sum(
        (often or 0) * sum(each.multiply_adds(code.warps) for each in region.tensor)
        for region, often in zip(code.regions, trips, strict=True)
    )
    assert multiplied > 1.9 * 16 * 16 * 64 * STEPS, "some of the four warps have no rows of their own"


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
@pytest.mark.parametrize("loads", [1, 3])
def test_a_loop_loads_as_often_as_its_text_says(architecture: str, loads: int) -> None:
    text = copies(loads)
    code, trips = counted(text, compiled(text, architecture, warps=2, stages=1))
    kinds = (Kind.GLOBAL_LOAD, Kind.COPY)
    total = sum(
        (often or 0) * region.bytes.get(kind, 0)
        for kind in kinds
        for region, often in zip(code.regions, trips, strict=True)
    )
    assert total * code.warps * code.threads == pytest.approx(4 * N * loads * STEPS, rel=0.02)
    for region in code.innermost:
        assert region.wide_accesses == region.count(*kinds), "16 bytes at a time"


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_boxes_are_copied_as_often_as_the_text_says(architecture: str) -> None:
    """Warps share the parts of a box, pipelines begin with several, and the result is one more."""
    names = ("a", "b", "out")
    facts = Facts(
        multiples={"M": 128, "N": 128, "K": 64}, strides=dict.fromkeys(names, (-1, 1)), aligned=names, distinct=True
    )
    plan = Plan({"i": 128, "j": 128}, {"k": 64}, order=("i", "j"), descriptors=names)
    (launch,) = lowering.lowered(lowering.kernel("matmul"), plan, facts).launches
    text = print_ttir(launch.module)
    code, source = read_code(compiled(text, architecture, warps=8)), read_source(text)
    runs = source.trips({"M": 128, "N": 128, "K": 64 * STEPS}, (1,))
    copied = copied_bytes(code, source)
    total = sum((often or 0) * each for often, each in zip(trips_of(code, source, runs), copied, strict=True))
    assert total == pytest.approx(STEPS * 2 * 128 * 64 * 2 + 128 * 128 * 4, rel=0.01)
    (loop,) = (n for n, region in enumerate(code.regions) if region.parent is not None and region.tensor)
    assert copied[loop] == 2 * 128 * 64 * 2
    limits = limits_of(DEVICE[architecture])
    plain, beside = (loop_cycles(code.regions[loop], code, limits, each)[MEMORY] for each in (0, copied[loop]))
    assert beside == pytest.approx(plain + copied[loop] / 128)


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA)
def test_control_words_keep_the_rules_of_the_hardware(architecture: str) -> None:
    binary = compiled(matmul(128, 64, 64), architecture)
    code = [each for each in read_sass(disassemble(binary.code, 60), binary.name) if each.control is not None]
    assert {each.control.stall for each in code if each.control} <= set(range(16))
    loads = [each for each in code if each.kind in (Kind.SHARED_LOAD, Kind.GLOBAL_LOAD) and each.control]
    signalling = [each for each in loads if each.control and each.control.writes is not None]
    assert len(signalling) >= len(loads) / 8, "their latency varies; the last of several in a row signals for all"
    fixed = [each for each in code if each.opcode.split(".")[0] in ("IADD3", "LOP3", "FADD", "FMUL")]
    assert all(each.control and each.control.writes is None for each in fixed)
    waited = {n for each in code if each.control for n in range(6) if each.control.waits >> n & 1}
    assert waited <= {n for each in code if each.control for n in (each.control.writes, each.control.reads)}


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_a_bound_is_that_of_the_slowest_unit(architecture: str) -> None:
    text, limits = matmul(128, 64, 64), limits_of(DEVICE[architecture])
    code, trips = counted(text, compiled(text, architecture))
    bound = static_bound(code, trips, LaunchWork(1000 * limits.multiprocessors, 1), limits)
    assert bound is not None
    assert bound.seconds == max(bound.parts.values()) == bound.parts[bound.bottleneck]
    assert 0 < bound.tensor_seconds <= bound.seconds * 1.0001
    ideal = 128 * 64 * 64 * STEPS * 1000 * limits.multiprocessors / limits.tensor_multiply_adds["float16"]
    assert bound.parts[TENSOR] >= 0.99 * ideal, "no faster than the device's rate"
    more = static_bound(code, trips, LaunchWork(1000 * limits.multiprocessors + 1, 1), limits)
    assert more is not None
    assert more.parts[TENSOR] == pytest.approx(bound.parts[TENSOR] * 1001 / 1000), "one more program on one core"
    heavy = static_bound(code, trips, LaunchWork(1, 1, memory_bytes=1e12), limits)
    assert heavy is not None
    assert heavy.bottleneck == DEVICE_MEMORY
    assert heavy.seconds == pytest.approx(1e12 / limits.memory_bandwidth)
    assert all(value >= 0 for region in code.regions for value in loop_cycles(region, code, limits).values())


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "gfx942"])
def test_no_bound_is_less_than_the_products_of_the_source_take(architecture: str) -> None:
    """Where nothing says how often a loop runs there is no bound: one trip is never enough."""
    text, limits = matmul(128, 64, 64), limits_of(DEVICE[architecture])
    code, grid = read_code(compiled(text, architecture)), (1000 * limits.multiprocessors,)
    ideal = 128 * 64 * 64 * STEPS * grid[0] / limits.tensor_multiply_adds["float16"]
    bound = launch_loops(code, text, limits, 1, grid, {"steps": STEPS}).bound
    assert bound is not None
    assert bound.parts[TENSOR] >= 0.99 * ideal
    assert launch_loops(code, text, limits, 1, grid, {}).bound is None
    once = static_bound(code, [1.0] * len(code.regions), LaunchWork(grid[0], 1), limits)
    mended = static_bound(
        code, [1.0] * len(code.regions), LaunchWork(grid[0], 1, multiply_adds=128 * 64 * 64 * STEPS), limits
    )
    assert once is not None
    assert mended is not None
    assert once.parts[TENSOR] < 0.5 * ideal
    assert mended.seconds >= 0.99 * ideal


def test_what_was_read_is_kept_and_disassembled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary, artifacts = compiled(matmul(128, 64, 64), "sm_80"), ArtifactCache(DiskCache(tmp_path))
    first = read_binary(binary, artifacts)
    assert first.code == read_code(binary)
    assert first.resources == read_resources(binary)
    monkeypatch.setattr("vkernels.compiler.binaries.read_code.disassemble", None)
    assert read_binary(binary, artifacts) == first


def test_a_disassembler_that_takes_too_long_is_refused() -> None:
    binary = compiled(matmul(128, 64, 64), "sm_80")
    with pytest.raises(FileError, match="longer than"):
        disassemble(binary.code, 1e-4)
    with pytest.raises(FileError, match="cannot be disassembled"):
        disassemble(binary.code[:100], 60)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without the whole kernel"),
        ("kernel:\n\tv_mov_b32 v0, 0\n.Lfunc_end0:\n", "without the whole kernel"),
        ("kernel:\n\ts_branch .LBB0_7\n\ts_endpgm\n.Lfunc_end0:\n", "branch to nowhere"),
    ],
)
def test_hostile_assembly_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        read_amdgcn(text, "kernel")
