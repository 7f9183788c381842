"""How many programs a multiprocessor holds, and what limits them."""

import csv
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.ir.occupancy import AmdSizes, BinaryUse, NvidiaSizes, occupancy, taken_parts, unified_registers
from vkernels.targets import known_targets

CASES = Path(__file__).parents[4] / "shared" / "facts" / "occupancy_cases.csv"

SIZES = {target.architecture: target.sizes for target in known_targets().values()}
NVIDIA = {name: sizes for name, sizes in SIZES.items() if isinstance(sizes, NvidiaSizes)}
AMD = {name: sizes for name, sizes in SIZES.items() if isinstance(sizes, AmdSizes)}

# Rows of NVIDIA's calculator: architecture, threads, registers, shared, barriers, blocks, what limits them.
CALCULATED = [
    ("sm_70", 384, 19, 0, 2, 5, {"threads"}),
    ("sm_70", 64, 130, 48128, 16, 2, {"shared"}),
    ("sm_70", 1024, 96, 98177, 16, 0, {"registers"}),
    ("sm_70", 64, 24, 0, 16, 32, {"threads", "blocks"}),
    ("sm_75", 160, 16, 0, 16, 6, {"threads"}),
    ("sm_80", 1024, 16, 84681, 4, 1, {"shared"}),
    ("sm_86", 32, 32, 1197, 2, 16, {"blocks"}),
    ("sm_87", 320, 167, 0, 2, 1, {"registers"}),
    ("sm_89", 96, 40, 2975, 1, 16, {"registers", "threads"}),
    ("sm_90", 224, 53, 26483, 16, 4, {"barriers"}),
    ("sm_90", 128, 177, 203416, 1, 1, {"shared"}),
    ("sm_90", 640, 168, 209561, 4, 0, {"registers"}),
    ("sm_90", 1024, 64, 232447, 1, 1, {"registers", "shared"}),
    ("sm_100", 256, 39, 0, 16, 4, {"barriers"}),
    ("sm_110", 64, 172, 0, 1, 4, {"registers"}),
    ("sm_120", 224, 157, 87534, 1, 1, {"registers", "shared"}),
]


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "barriers", "blocks", "limited"), CALCULATED
)
def test_nvidias_calculator_is_met(architecture, threads, registers, shared, barriers, blocks, limited):
    found = occupancy(NVIDIA[architecture], BinaryUse(threads, registers, shared, barriers))
    assert found.blocks == blocks
    assert set(found.limited_by) == limited


def test_every_row_of_nvidias_calculator_is_met():
    if not CASES.exists():
        pytest.skip(f"{CASES} is not here")
    seen = Counter()
    with CASES.open() as file:
        for row in csv.DictReader(file):
            names = ("threads", "registers", "shared", "barriers")
            columns = ("threads_per_block", "registers_per_thread", "shared_bytes_per_block", "barriers_per_block")
            use = BinaryUse(**{name: int(row[column]) for name, column in zip(names, columns, strict=True)})
            architecture = f"sm_{row['compute_capability'].replace('.', '')}"
            found = occupancy(NVIDIA[architecture], use)
            assert found.blocks == int(row["blocks_per_sm"]), (row, found)
            seen[architecture] += 1
    assert sum(seen.values()) == 4800
    assert len(seen) == 12


def test_a_program_that_cannot_run_has_no_blocks():
    sizes = NVIDIA["sm_80"]
    assert occupancy(sizes, BinaryUse(1025, 16)).limited_by == ("threads",)
    assert occupancy(sizes, BinaryUse(32, 256)).blocks == 0
    assert occupancy(sizes, BinaryUse(1024, 65)).limited_by == ("registers",)
    assert occupancy(sizes, BinaryUse(32, 16, sizes.block_shared)).blocks == 1
    assert occupancy(sizes, BinaryUse(32, 16, sizes.block_shared + 1)).limited_by == ("shared",)


# Worked out by hand from AMD's rules: waves of a SIMD are its registers by the rounded need, at most 8 (16 on RDNA);
# a compute unit (RDNA: a work-group processor) has four SIMDs.
BY_HAND = [
    ("gfx90a", BinaryUse(256, 64), 8, {"threads", "registers"}),  # 512 / 64 = 8 waves × 4 SIMDs / 4 waves a group
    ("gfx90a", BinaryUse(256, 65), 7, {"registers"}),  # 72 each: 7 waves
    ("gfx942", BinaryUse(256, 128, accumulators=128), 2, {"registers"}),  # one file: 256 together, 2 waves
    ("gfx942", BinaryUse(256, 125, accumulators=4), 3, {"registers"}),  # accumulators start at 128: 132, rounded to 136
    ("gfx942", BinaryUse(256, 256, accumulators=256), 1, {"registers"}),
    ("gfx942", BinaryUse(192, 512), 1, {"registers"}),  # 4 waves hold one group of 3, never 4/3 of it
    ("gfx942", BinaryUse(320, 512), 0, {"registers"}),  # 5 waves of which a compute unit holds 4
    ("gfx942", BinaryUse(256, 513), 0, {"registers"}),
    ("gfx942", BinaryUse(256, 32, shared=32769), 1, {"shared"}),  # 33280 with its granule of 512
    ("gfx942", BinaryUse(256, 32, shared=65537), 0, {"shared"}),
    ("gfx942", BinaryUse(64, 16), 32, {"threads"}),  # one wave needs no barrier
    ("gfx942", BinaryUse(128, 16), 16, {"threads", "blocks"}),
    ("gfx942", BinaryUse(256, 32, scalars=112), 7, {"registers"}),  # 800 / 112
    ("gfx942", BinaryUse(1025, 16), 0, {"threads"}),
    ("gfx950", BinaryUse(256, 32, shared=65536), 2, {"shared"}),  # of 160 KiB
    ("gfx1100", BinaryUse(128, 96), 16, {"threads", "registers"}),  # 1536 / 96 = 16 waves × 4 SIMDs / 4
    ("gfx1100", BinaryUse(128, 97), 12, {"registers"}),  # 120 each: 12 waves
    ("gfx1100", BinaryUse(128, 256), 5, {"registers"}),  # 264 each: 5 waves
    ("gfx1100", BinaryUse(128, 257), 0, {"registers"}),
    ("gfx1100", BinaryUse(64, 24), 32, {"threads", "blocks"}),
    ("gfx1100", BinaryUse(256, 32, shared=64 << 10), 2, {"shared"}),  # a pair of compute units has 128 KiB
    ("gfx1100", BinaryUse(256, 32, shared=(64 << 10) + 1), 0, {"shared"}),
    ("gfx1100", BinaryUse(128, 24, scalars=106), 16, {"threads"}),  # scalar registers limit nothing
    ("gfx1030", BinaryUse(128, 64), 16, {"threads", "registers"}),  # 1024 / 64
]


@pytest.mark.parametrize(("architecture", "use", "blocks", "limited"), BY_HAND)
def test_amds_work_groups_are_whole(architecture, use, blocks, limited):
    found = occupancy(AMD[architecture], use)
    assert found.blocks == blocks
    assert set(found.limited_by) == limited


def test_registers_of_one_file_are_added_up():
    assert unified_registers(125, 0) == 125
    assert unified_registers(125, 1) == 129


USES = st.builds(
    BinaryUse,
    threads=st.integers(1, 1100),
    registers=st.integers(0, 600),
    shared=st.integers(0, 250_000),
    barriers=st.integers(0, 16),
    accumulators=st.integers(0, 300),
    scalars=st.integers(0, 112),
)
MORE = st.sampled_from(["threads", "registers", "shared", "barriers", "accumulators", "scalars"])


@given(sizes=st.sampled_from([*SIZES.values()]), use=USES, more=MORE, by=st.integers(1, 300))
def test_taking_more_never_gives_more_blocks(sizes, use, more, by):
    taken = {
        name: getattr(use, name) for name in ("threads", "registers", "shared", "barriers", "accumulators", "scalars")
    }
    before, after = occupancy(sizes, use), occupancy(sizes, BinaryUse(**{**taken, more: taken[more] + by}))
    assert after.blocks <= before.blocks
    assert before.blocks == min(before.bounds.values())
    assert before.limited_by


@given(sizes=st.sampled_from([*SIZES.values()]), use=USES)
def test_what_is_held_fits(sizes, use):
    found = occupancy(sizes, use)
    everywhere = sizes.partitions if isinstance(sizes, AmdSizes) else 1
    assert found.warps <= sizes.warps * everywhere
    assert found.blocks * use.shared <= sizes.shared
    assert found.warps * sizes.warp * use.registers <= sizes.registers * everywhere * (
        sizes.warp if everywhere > 1 else 1
    )


@pytest.mark.parametrize("nonsense", [{"threads": 0}, {"threads": 32, "registers": -1}, {"threads": 32, "shared": -1}])
def test_a_program_cannot_take_less_than_nothing(nonsense):
    with pytest.raises(ValueError, match="a program cannot take"):
        BinaryUse(**{"registers": 1, **nonsense})


@given(
    sizes=st.sampled_from(list(SIZES.values())), warps=st.integers(1, 32), registers=st.integers(1, 256),
    shared=st.integers(0, 1 << 18), barriers=st.integers(0, 16),
)  # fmt: skip
def test_parts_that_programs_take_of_a_multiprocessor_add_up_to_its_occupancy(
    sizes, warps, registers, shared, barriers
):
    if not isinstance(sizes, (NvidiaSizes, AmdSizes)):
        return
    use = BinaryUse(warps * sizes.warp, registers, shared, barriers, scalars=registers)
    found = occupancy(sizes, use)
    if found.blocks:
        parts = taken_parts(sizes, use)
        assert max(parts.values()) * found.blocks <= 1 < max(parts.values()) * (found.blocks + 1)
        assert {name for name, part in parts.items() if part * (found.blocks + 1) > 1} == set(found.limited_by)
