"""What a binary says it uses agrees with NVIDIA's and AMD's own accounts, and damaged binaries are refused."""

from __future__ import annotations

import dataclasses
import re
import struct
import subprocess
import time
from pathlib import Path

import pytest
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.compiler.backends.resources import amd, nvidia, read_resources
from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.ir.errors import FileError

from .texts import COPY, REVERSE, N, compiled, matmul

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
NVIDIA = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"]
AMD = ["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"]
WITHOUT_MATRIX_CORES = ["gfx1030"]
WITHOUT_TRITONS_USE = ["sm_70", "sm_75"]
"""They have tensor cores, but neither version of Triton's `dot` uses them: it multiplies and adds."""

MATMUL = matmul(64, 64, 32)
LARGE = matmul(128, 128, 32)
"""Too much for few registers."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_a_copy_moves_16_bytes_at_a_time(architecture: str) -> None:
    mix = read_resources(compiled(COPY, architecture)).mix
    assert mix.wide_loads == mix.global_loads > 0
    assert mix.wide_stores == mix.global_stores > 0
    assert mix.tensor_core == mix.shared_loads == mix.shared_stores == mix.spill_stores == mix.barriers == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_a_narrow_copy_is_not_counted_as_wide(architecture: str) -> None:
    text = COPY.replace("{tt.divisibility = 16 : i32}", "{tt.divisibility = 4 : i32}")
    mix = read_resources(compiled(text, architecture)).mix
    assert mix.global_loads > 0
    assert mix.wide_loads < mix.global_loads or not architecture.startswith("sm_")  # AMD's need no alignment


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_a_matmul_uses_tensor_cores_where_triton_does(architecture: str) -> None:
    found = read_resources(compiled(MATMUL, architecture))
    assert (found.mix.tensor_core > 0) == (architecture not in WITHOUT_MATRIX_CORES + WITHOUT_TRITONS_USE)
    assert found.mix.wide_loads > 0
    assert found.mix.shared_loads + found.mix.shared_stores > 0
    assert found.mix.barriers > 0
    assert 16 < found.registers <= 512


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", ["sm_100", "sm_103", "sm_110"])
def test_a_matmul_counts_its_tensor_memory(architecture: str) -> None:
    assert read_resources(compiled(matmul(128, 64, 32), architecture)).tensor_memory >= 64
    assert read_resources(compiled(COPY, architecture)).tensor_memory == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", [name for name in NVIDIA if name != "sm_70"])
@pytest.mark.parametrize("text", [COPY, MATMUL, REVERSE], ids=["copy", "matmul", "reverse"])
def test_nvidia_figures_are_those_of_its_own_tool(architecture: str, text: str, tmp_path: Path) -> None:
    binary = compiled(text, architecture, scratch=4 * N if text == REVERSE else 0)
    found = read_resources(binary)
    file = tmp_path / "kernel.cubin"
    file.write_bytes(binary.code)
    done = subprocess.run([TOOLS / "cuobjdump", "-res-usage", file], capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"this cuobjdump does not read {architecture}: {done.stderr}")
    registers, stack, shared = map(int, re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", done.stdout).groups())  # type: ignore[union-attr]
    assert (found.registers, found.stack) == (registers, stack)
    assert shared - found.static_shared in (0, 1024)  # it counts what the system reserves


@pytest.mark.sample(2)
@pytest.mark.parametrize(("architecture", "registers"), [("sm_75", 128), ("sm_80", 64), ("sm_90", 96)])
def test_nvidia_spills_are_the_bytes_that_ptxas_counts(architecture: str, registers: int, tmp_path: Path) -> None:
    """ptxas reports on the very file that is read."""
    text = MATMUL if architecture == "sm_75" else LARGE
    binary = compiled(text, architecture, settings=f'{{"maxnreg": {registers}}}')
    source, cubin = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(binary.assembly)
    tool = TOOLS / ("ptxas-blackwell" if "version 9" in binary.assembly else "ptxas")
    name = f"{architecture}a" if architecture == "sm_90" else architecture
    command = [tool, "-v", f"--gpu-name={name}", source, "-o", cubin]
    said = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stderr
    found = read_resources(dataclasses.replace(binary, code=cubin.read_bytes()))
    stack, stores, loads = map(int, re.search(r"(\d+) bytes stack.* (\d+) bytes spill st.* (\d+) bytes", said).groups())  # type: ignore[union-attr]
    assert stores > 0
    assert (found.stack, found.spill_store_bytes, found.spill_load_bytes) == (stack, stores, loads)
    assert found.registers == int(re.search(r"Used (\d+) registers", said)[1])  # type: ignore[index]
    assert found.mix.spill_stores > 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(("architecture", "waves"), [("gfx90a", 8), ("gfx942", 8), ("gfx1030", 16), ("gfx1100", 16)])
def test_amd_spills_are_the_registers_that_llvm_counts(architecture: str, waves: int) -> None:
    """With so many waves at once, each may have few registers."""
    binary = compiled(LARGE, architecture, settings=f'{{"waves_per_eu": {waves}}}')
    found = read_resources(binary)
    spilled = int(re.search(r"\.vgpr_spill_count: *(\d+)", binary.assembly)[1])  # type: ignore[index]
    assert spilled > 0
    assert found.spill_store_bytes >= 4 * spilled
    assert found.spill_load_bytes > 0
    assert found.stack > 0


@pytest.mark.sample(4)
@pytest.mark.parametrize("architecture", AMD)
@pytest.mark.parametrize("text", [COPY, MATMUL], ids=["copy", "matmul"])
def test_amd_figures_are_those_of_its_summary(architecture: str, text: str) -> None:
    """LLVM writes the figures twice: in the table that the driver reads and, for people, in comments."""
    binary = compiled(text, architecture)
    found = read_resources(binary)

    def said(name: str) -> int:
        return int(re.search(rf"^; {name}: (\d+)", binary.assembly, re.MULTILINE)[1])  # type: ignore[index]

    assert found.stack == said("ScratchSize")
    assert found.scalar_registers == said("TotalNumSgprs")
    assert found.registers == said("TotalNumVgprs" if architecture in ("gfx90a", "gfx942", "gfx950") else "NumVgprs")
    assert found.static_shared == said("LDSByteSize")


def test_reserved_shared_memory_is_no_need_of_the_kernel(tmp_path: Path) -> None:
    """ptxas adds 1024 bytes to the section of a kernel with shared memory of its own on sm_90, none before."""
    source = """.version 8.0\n.target {name}\n.address_size 64
.visible .entry kernel(.param .u64 p) {{ .reg .b32 %a; .reg .b32 %i; .reg .b64 %d; .shared .align 4 .b8 own[256];
 mov.u32 %a, own; mov.u32 %i, %tid.x; st.shared.u32 [%a], %i; bar.sync 0; ld.shared.u32 %i, [%a+4];
 ld.param.u64 %d, [p]; st.global.u32 [%d], %i; ret; }}"""
    for name in ("sm_80", "sm_90"):
        (tmp_path / "k.ptx").write_text(source.format(name=name))
        command = [TOOLS / "ptxas", f"--gpu-name={name}", tmp_path / "k.ptx", "-o", tmp_path / "k.cubin"]
        subprocess.run(command, check=True, timeout=60)
        assert nvidia.facts_of((tmp_path / "k.cubin").read_bytes(), "kernel", name).static_shared == 256


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sibling", "stand_in"), [("sm_103", "SM100a"), ("sm_121", "SM120a")])
def test_a_sibling_disassembles_alike(sibling: str, stand_in: str) -> None:
    text = nvidia.facts_of(compiled(MATMUL, sibling).code, "matmul", sibling).text
    own, reason = nvidia._disassembled(text, f"SM{sibling[3:]}a", 60)
    if own is None:
        pytest.skip(f"this disassembler knows the sibling only: {reason}")
    other, _ = nvidia._disassembled(text, stand_in, 60)
    assert other is not None
    assert nvidia._OPCODE.findall(own) == nvidia._OPCODE.findall(other)


def test_opcodes_are_sorted_by_what_they_do() -> None:
    """Those that only some versions emit, as NVIDIA's disassembler spells them."""

    def kinds(opcode: str) -> set[str]:
        return set(nvidia._instruction(opcode).kinds)

    for opcode in ("HMMA.16816.F32", "IMMA.16832.S8.S8", "QMMA.16832.F32", "HGMMA.64x64x16", "UTCHMMA", "DMMA.884"):
        assert kinds(opcode) == {"tensor_core"}
    assert kinds("LDGSTS.E.BYPASS.LTC128B.128") == {"global_loads", "wide_loads"}
    assert kinds("LDGSTS.E.LTC128B") == kinds("LDG.E.64") == {"global_loads"}
    assert kinds("LDGDEPBAR") == kinds("UTCBAR") == kinds("FFMA") == set()
    assert nvidia._instruction("STL.128").private_bytes == 16
    assert nvidia._instruction("LDL.U8").private_bytes == 1


def altered(binary: Binary, code: bytes) -> Binary:
    return dataclasses.replace(binary, code=code)


@given(st.data())
@settings(max_examples=60)
def test_a_truncated_cubin_is_refused(data: st.DataObject) -> None:
    binary = compiled(COPY, "sm_80")
    length = data.draw(st.integers(0, len(binary.code) - 1))
    with pytest.raises(FileError):
        nvidia.facts_of(binary.code[:length], binary.name, "sm_80")


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_cubin_is_read_or_refused(data: st.DataObject) -> None:
    binary = compiled(COPY, "sm_90")
    code = bytearray(binary.code)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.one_of(st.integers(0, 63), st.integers(0, len(code) - 1)))
        code[at] = data.draw(st.integers(0, 255))
    try:
        facts = nvidia.facts_of(bytes(code), binary.name, "sm_90")
    except FileError:
        return
    assert facts.registers >= 0
    assert len(facts.text) <= len(code)


def test_a_table_as_large_as_the_format_allows_is_read_quickly() -> None:
    code = bytearray(compiled(COPY, "sm_80").code)
    struct.pack_into("<HH", code, 58, 0, 65535)
    start = time.monotonic()
    with pytest.raises(FileError):
        nvidia.facts_of(bytes(code), "kernel", "sm_80")
    assert time.monotonic() - start < 60  # a guard against a hang, not a timing


@pytest.mark.parametrize("code", [b"", b"\x7fELF", bytes(64), b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_cubin_is_refused(code: bytes) -> None:
    with pytest.raises(FileError):
        read_resources(altered(compiled(COPY, "sm_80"), code))


def test_a_vendors_binary_is_not_the_others() -> None:
    nvidia_binary, amd_binary = compiled(COPY, "sm_80"), compiled(COPY, "gfx942")
    with pytest.raises(FileError, match="not one of NVIDIA's"):
        read_resources(altered(nvidia_binary, amd_binary.code))
    with pytest.raises(FileError):
        read_resources(dataclasses.replace(amd_binary, assembly=nvidia_binary.assembly))


def test_another_kernels_name_is_refused() -> None:
    for architecture in ("sm_80", "gfx942"):
        with pytest.raises(FileError, match="without the kernel other"):
            read_resources(dataclasses.replace(compiled(COPY, architecture), name="other"))


def test_instructions_that_are_none_are_refused() -> None:
    with pytest.raises(FileError, match="cannot be disassembled"):
        nvidia.instructions_of(b"\xff" * 256, "sm_80", 60)
    with pytest.raises(FileError, match="cannot be disassembled"):
        nvidia.instructions_of(b"", "sm_80", 60)


def test_a_disassembler_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(FileError, match="took longer"):
        read_resources(compiled(COPY, "sm_80"), seconds=1e-4)


@given(st.data())
@settings(max_examples=60)
def test_a_truncated_amd_text_is_refused(data: st.DataObject) -> None:
    binary = compiled(COPY, "gfx942")
    whole = binary.assembly.index(".end_amdgpu_metadata")
    length = data.draw(st.integers(0, whole))
    with pytest.raises(FileError):
        read_resources(dataclasses.replace(binary, assembly=binary.assembly[:length]))


def test_amd_numbers_that_are_none_are_refused() -> None:
    binary = compiled(COPY, "gfx942")
    text = re.sub(r"\.vgpr_count: +\d+", ".vgpr_count: -3", binary.assembly)
    with pytest.raises(FileError, match="vgpr_count"):
        amd.table_of(text, binary.name)
