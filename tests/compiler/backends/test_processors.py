"""Code for CPUs that are not present, read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

import pytest

from vkernels.compiler.backends.llvm_processors import assembly_for
from vkernels.compiler.compile_cpu import assembly_for_processor
from vkernels.ir.dot_units import DOT_UNITS, DotUnit, MatrixBlocks
from vkernels.ir.errors import SetupError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module
from vkernels.targets import limits_of
from vkernels.targets.processors import PROCESSORS, processor_targets

from ...ir.lowering.llvm.texts import matmul_text

PLAN = Plan({"i": 2, "j": 17}, {"k": 4}, packs=("a", "b"), lanes="j", order=("j", "i"))


SIZES = {"M": 8, "N": 74, "K": 64}
SUMS = {"i8": "i32", "bf16": "f32", "f16": "f32"}


def units_for(name: str, element: str) -> list[DotUnit]:
    """The units of a processor for an element, the best first."""
    units = [DOT_UNITS[unit] for unit in DOT_UNITS if unit in limits_for(name).dot_units]
    return [unit for unit in units if unit.takes("s8" if element == "i8" else element)]


def limits_for(name: str) -> Limits:
    return limits_of(processor_targets()[f"cpu:{name}"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("element", ["i8", "bf16"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_unit_is_in_the_code_of_processors_that_have_it_alone(name: str, element: str) -> None:
    module = parse_module(matmul_text(element, SUMS[element]))
    assembly = assembly_for_processor(module, PLAN, Facts(SIZES, distinct=True), limits_for(name))
    has = [unit for unit in units_for(name, element) if not unit.is_matrix and not unit.is_block]
    for unit in DOT_UNITS.values():
        is_in = any(f"\t{instruction}\t{registers_of(unit)}" in assembly for instruction in unit.instructions.values())
        assert is_in == (unit in has[:1])


def registers_of(unit: DotUnit) -> str:
    """How names of the registers begin that the same instructions of Arm's units take."""
    return {"sve": "z", "neon": "v"}.get(unit.name.split("-")[0], "")


@pytest.mark.parametrize(
    ("name", "signs", "instruction"),
    [
        ("neoverse-v2", "uu", "udot"),
        ("neoverse-v2", "us", "usdot"),
        ("ampere1", "ss", "sdot"),
        ("neoverse-v2", "su", "usdot"),
        ("neoverse-n1", "us", "udot"),
        ("sierraforest", "su", "vpdpbsud"),
        ("icelake-server", "uu", "vpdpbusd"),
        ("a64fx", "uu", "udot"),
        ("neoverse-v1", "us", "usdot"),
    ],
)
def test_signs_choose_the_instruction(name: str, signs: str, instruction: str) -> None:
    module = parse_module(matmul_text("i8", "i32", signs))
    assembly = assembly_for_processor(module, PLAN, Facts(SIZES, distinct=True), limits_for(name))
    assert f"\t{instruction}\t" in assembly


@pytest.mark.parametrize(
    ("name", "element", "signs", "instruction"),
    [
        ("neoverse-v2", "i8", "ss", "smmla"),
        ("neoverse-n2", "i8", "uu", "ummla"),
        ("apple-m3", "i8", "su", "usmmla"),
        ("ampere1", "i8", "us", "usmmla"),
        ("neoverse-n2", "bf16", "ss", "bfmmla"),
    ],
)
def test_blocks_stay_in_registers_while_a_loop_runs(name: str, element: str, signs: str, instruction: str) -> None:
    """An iteration multiplies each pair of rows by each pair of columns, and loads each pair once."""
    depth = 8 if element == "i8" else 4
    plan = Plan({"i": 8, "j": 12}, {"k": depth}, packs=("a", "b"), lanes="j", order=("j", "i"))
    module = parse_module(matmul_text(element, SUMS[element], signs))
    facts = Facts({"M": 64, "N": 96, "K": 64 * depth}, distinct=True)
    assembly = assembly_for_processor(module, plan, facts, limits_for(name))
    operations = loop_with(assembly, instruction)
    assert operations.count(instruction) == 4 * 6
    assert operations.count("ldp") + operations.count("ldr") <= 4 + 6
    assert len(operations) <= 4 * 6 + 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("element", "signs", "instruction"),
    [("i8", "ss", "smmla"), ("i8", "uu", "ummla"), ("i8", "su", "usmmla"), ("bf16", "ss", "bfmmla")],
)
def test_registers_of_sve_hold_several_blocks(element: str, signs: str, instruction: str) -> None:
    """An iteration multiplies each pair of rows, which one load repeats, by two pairs of columns at once."""
    depth = 8 if element == "i8" else 4
    plan = Plan({"i": 8, "j": 24}, {"k": depth}, packs=("a", "b"), lanes="j", order=("j", "i"))
    module = parse_module(matmul_text(element, SUMS[element], signs))
    facts = Facts({"M": 64, "N": 96, "K": 64 * depth}, distinct=True)
    assembly = assembly_for_processor(module, plan, facts, limits_for("neoverse-v1"))
    operations = loop_with(assembly, instruction)
    assert operations.count(instruction) == 4 * 6
    assert (operations.count("ld1rqd"), operations.count("ldr")) == (4, 6)
    assert len(operations) <= 4 * 6 + 4 + 6 + 8


@pytest.mark.slow
def test_sdot_takes_registers_of_512_bits() -> None:
    plan = Plan({"i": 8, "j": 32}, {"k": 4}, packs=("a", "b"), lanes="j", order=("j", "i"))
    facts = Facts({"M": 64, "N": 96, "K": 256}, distinct=True)
    assembly = assembly_for_processor(parse_module(matmul_text("i8", "i32")), plan, facts, limits_for("a64fx"))
    operations = loop_with(assembly, "sdot")
    assert operations.count("sdot") == 8 * 2  # of 16 columns each
    assert (operations.count("ld1rw"), operations.count("ld1w")) == (8, 2)


def test_other_work_takes_registers_of_sve_whole() -> None:
    """Masked ends of rows, too: a row of 61 is 7 registers of 8 and one that is masked."""
    text = """
vk.kernel @scaled(%a: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %x = vk.load %a[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %y = arith.mulf %x, %x : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %y in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""
    facts = Facts({"M": 4, "N": 61}, strides={"a": (-1, 1), "out": (-1, 1)}, distinct=True)
    plan = Plan({"i": 1, "j": 64}, {}, lanes="j")
    assembly = assembly_for_processor(parse_module(text), plan, facts, limits_for("neoverse-v1"))
    assert len(re.findall(r"\tfmul\tz\d+\.s", assembly)) == 8
    assert not re.findall(r"\tfmul\tv\d+\.4s", assembly)


def loop_with(assembly: str, instruction: str) -> list[str]:
    """The operations of the one loop of a unit's instruction, up to its end."""
    (loop,) = [lines for lines in blocks_of(assembly) if any(line.split()[0] == instruction for line in lines)]
    return list(takewhile(lambda operation: not operation.startswith("b."), (line.split()[0] for line in loop)))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (16, 48), (9, 32)])
@pytest.mark.parametrize(
    ("name", "element"),
    [("sapphirerapids", "bf16"), ("emeraldrapids", "i8"), ("sapphirerapids", "f16"), ("graniterapids", "f16")],
)
def test_a_matrix_unit_holds_the_sums_while_a_loop_runs(name: str, element: str, rows: int, columns: int) -> None:
    """An iteration loads each block of an operand once, of split ones its upper and lower parts, the rows' upper ones
    twice, and multiplies; shapes are set once a launch."""
    unit = units_for(name, element)[0]
    plan = Plan({"i": rows, "j": columns}, {"k": unit.chunk}, packs=("a", "b"), lanes="j", order=("j", "i"))
    facts = Facts({"M": 10 * rows, "N": 10 * columns, "K": 4 * unit.chunk}, distinct=True)
    module = parse_module(matmul_text(element, SUMS[element]))
    assembly = assembly_for_processor(module, plan, facts, limits_for(name))
    (instruction,) = {each for each in unit.instructions.values() if each in assembly}
    blocks = MatrixBlocks.of(rows, columns)
    (loop,) = [lines for lines in blocks_of(assembly) if any(instruction in line for line in lines)]
    operations = list(takewhile(lambda operation: not operation.startswith("j"), (line.split()[0] for line in loop)))
    times, of_rows, of_columns = (4, 3, 2) if unit.is_split else (1, 1, 1)
    assert operations.count(instruction) == times * len(blocks.rows) * len(blocks.columns)
    loads = [operations.count("tileloaddt1"), operations.count("tileloadd")]  # rows change with each program
    expected = [of_rows * len(blocks.rows), of_columns * len(blocks.columns)]
    assert loads == ([0, sum(expected)] if unit.is_split else expected)
    assert len(operations) <= 3 * sum(loads) + operations.count(instruction) + 4
    assert (assembly.count("ldtilecfg"), assembly.count("tilerelease")) == (1, 1)


def blocks_of(assembly: str) -> Iterator[list[str]]:
    """The instructions from each label to the next."""
    for block in re.split(r"^\S+:.*$", assembly, flags=re.MULTILINE):
        yield [line.strip() for line in block.splitlines() if line.strip() and not line.strip().startswith((".", "#"))]


@pytest.mark.parametrize(("name", "is_exact"), [
    ("neoverse-v2", True), ("neoverse-v1", True), ("a64fx", False), ("apple-m1", False), ("sapphirerapids", False),
])  # fmt: skip
def test_bf16_is_rounded_by_an_instruction_where_that_is_exact(name: str, is_exact: bool) -> None:
    plan = Plan({"i": 2, "j": 16}, {}, lanes="j")
    text = """
vk.kernel @rounded(%a: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], bf16>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %x = vk.load %a[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %r = arith.truncf %x : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xbf16, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], bf16> <- tensor<?x?xbf16, #vk.axes<i, j>>
}
"""
    facts = Facts({"M": 4, "N": 32}, distinct=True)
    assembly = assembly_for_processor(parse_module(text), plan, facts, limits_for(name))
    assert ("\tbfcvt" in assembly) == is_exact
    assert "vcvtneps2bf16" not in assembly


@pytest.mark.parametrize(
    ("name", "from_f16", "to_f16"),
    [
        ("sapphirerapids", "vcvtph2psx", "vcvtps2phx"),
        ("znver4", "vcvtph2ps", "vcvtps2ph"),
        ("znver3", "vcvtph2ps", "vcvtps2ph"),
        ("neoverse-v2", "fcvtl", "fcvtn"),
        ("a64fx", "fcvt", "fcvt"),
    ],
)
def test_f16_is_converted_by_instructions_and_added_up_in_f32(name: str, from_f16: str, to_f16: str) -> None:
    facts = Facts(SIZES, strides=dict.fromkeys(("a", "b", "out"), (-1, 1)), distinct=True)
    text = matmul_text("f16", "f32").replace("%out: !vk.tensor<[M, N], f32>", "%out: !vk.tensor<[M, N], f16>")
    stored = """  %r = arith.truncf %p : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xf16, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], f16> <- tensor<?x?xf16, #vk.axes<i, j>>
}
"""
    module = parse_module(text[: text.index("  vk.store")] + stored)
    assembly = assembly_for_processor(module, PLAN, facts, limits_for(name))
    assert f"\t{from_f16}\t" in assembly
    assert f"\t{to_f16}\t" in assembly
    assert not re.findall(r"\tv(?:fn?m|add|mul)\w*[ps]h\t|\tf(?:ml|add|mul)\w*\t[vz]\d+\.\d?h", assembly)


def test_a_name_that_llvm_may_not_know_is_refused() -> None:
    with pytest.raises(SetupError, match="no processor 'pentium9'"):
        assembly_for(LlvmModule("f", "module {}", 0, (), 0, "p", (), 0), "pentium9")


@pytest.mark.parametrize(("element", "tile"), [("f32", (8, 48)), ("bf16", (32, 32))])
def test_products_keep_their_operands_in_registers(element: str, tile: tuple[int, int]) -> None:
    """Nothing spills around dots where columns are masked, and no tile of sums where a matrix unit gives them back."""
    chunk = 4 if element == "f32" else 32
    plan = Plan(dict(zip("ij", tile, strict=True)), {"k": chunk}, packs=("b",), lanes="j", order=("j", "i"))
    facts = Facts(
        multiples={"M": 32, "K": 32},
        bounds={"K": 2048},
        strides=dict.fromkeys(("a", "b", "out"), (-1, 1)),
        distinct=True,
    )
    module = parse_module(matmul_text(element, "f32"))
    assembly = assembly_for_processor(module, plan, facts, limits_for("sapphirerapids"))
    code = assembly[assembly.rindex("matmul_launch_1_body:") :]
    assert ("tdpbf16ps" in code) == (element == "bf16")
    assert len(re.findall(r"%zmm\d+, -?\d*\(%rsp\)", code)) < 16
