"""Programs and calibrations drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from vkernels.memory.calibration import AccessCosts, AccessRates, Managed
from vkernels.memory.placement.program import Buffer, BufferUse, HostCode, PlacedLaunch, PlacedProgram, Side

MIB = 1 << 20
RATES = st.floats(1e8, 1e12)
SECONDS = st.floats(0, 1e-3)


@st.composite
def accesses(draw, integrated=None):
    rates = st.builds(AccessRates, RATES, RATES, RATES, RATES)
    carried = st.one_of(st.none(), RATES)
    managed = st.builds(Managed, SECONDS, st.integers(4096, 4 * MIB), carried, carried, carried, SECONDS, SECONDS)
    return AccessCosts(
        draw(st.booleans()) if integrated is None else integrated, draw(RATES), draw(RATES), draw(SECONDS), draw(rates),
        draw(rates), draw(st.booleans()), draw(RATES), draw(RATES), draw(SECONDS), draw(st.one_of(st.none(), managed)),
    )  # fmt: skip


@st.composite
def programs(draw, buffers=5, steps=4):
    """Buffers of which some are empty before, and steps that read only what was written."""
    sizes = draw(st.lists(st.integers(0, 64 * MIB), min_size=1, max_size=buffers))
    made = [
        Buffer(f"b{n}", size, draw(st.sampled_from([Side.HOST, Side.HOST, Side.DEVICE, None])), draw(st.booleans()))
        for n, size in enumerate(sizes)
    ]
    filled = {each.name for each in made if each.starts is not None}
    found = []
    for number in range(draw(st.integers(1, steps))):
        uses = []
        for buffer in draw(st.lists(st.sampled_from(made), unique=True, min_size=1)):
            reads, writes = draw(st.booleans()) and buffer.name in filled, draw(st.booleans())
            again = draw(st.integers(1, 40))
            read, written = buffer.size * reads, buffer.size * writes
            uses.append(
                BufferUse(
                    buffer.name, read, written, read * again, written * again, draw(st.booleans()), writes and not reads
                )
            )
            filled |= {buffer.name} if writes and buffer.size else set()
        if draw(st.integers(0, 3)):
            parts = {"operations": draw(SECONDS), "cache": draw(SECONDS), "memory": draw(SECONDS)}
            found.append(PlacedLaunch(f"launch {number}", tuple(uses), parts, draw(SECONDS)))
        else:
            found.append(HostCode(f"code {number}", tuple(uses)))
    return PlacedProgram(tuple(made), tuple(found))
