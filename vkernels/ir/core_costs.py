"""What instructions and memory cost one core of a CPU, as its cost model counts."""

from __future__ import annotations

from dataclasses import dataclass

WIDE = 32
"""Bytes of the widest registers that nearly all cores load two of in a cycle, and store one."""

LAST_CACHE_SHARE = 0.35
"""Part of the last cache that a kernel finds its own, where that was not measured."""


@dataclass(frozen=True)
class CoreCosts:
    """Costs of one core, measured or of its family; the defaults are those of a server core of 2022.

    `loads`, `stores`: whole registers a cycle, from and to the nearest cache. `latency`: cycles from one multiply-add
    to the next that needs it. `level_1`: bytes of the nearest cache. `memory`: bytes a second that one core reads from
    memory at most: as many lines as it can wait for, in a memory's latency.
    `stored_2`, `stored_3`, `stored`: what a byte that is written costs level 2, level 3 and memory beside a byte
    that is read, where its line is fetched first, and written back; `past_3`, `past`: the same of level 3 and
    memory where it is stored past the caches by all cores together, `past_3_alone`, `past_alone`: by one core.
    `past_store`: cycles of each such store that no other work hides, as the test whether its address allows it ends
    what can be interleaved; `past_straight`: of each in straight code, where long chains, as of polynomials, live by
    what the tests keep from being interleaved. `cache_share`: part of the last cache that a kernel finds its own from
    call to call in: other work takes the rest. `own`: part of level 2, as the system reports its size, that data may
    take, with all that streams by before they are used again, until half of them are lost; `gradual`: how much sooner
    than that, as a part of it, losses begin, and how much later all are lost.

    Cycles of accesses that are not side by side, where the nearest cache holds the memory unless something else is
    said. `apart`: of an element of a vector that is loaded from as many rows as it has lanes, `store_apart`: that is
    stored to them; `apart_narrow`, `store_apart_narrow`: the same of elements of two bytes, which no instruction
    gathers, so that each is moved into its lane, or out of it, by itself. `found`: of an element that is found by an
    index, and `index`: of taking the index out of its vector, once for all that it finds. `apart_alone`: part of the
    cycles of all these in which a core does no arithmetic: 0 where only its loads and stores are busy, 1 where the
    instructions of such a vector take the places of others.
    `masked`: how much longer the access of a vector takes under a mask. `across`: each halving when the lanes of a
    vector are added up. `atomic`: of an atomic addition, `update`: of one that is none; `atomic_far`, `update_far`:
    how much more they take beyond level 2.
    Cycles of lines beyond those of lines side by side. `hop`: each on another page than the one before, beyond level
    2. `line_3`, `line`: in no order, from level 3 and from memory. `lost_3`, `lost`: of each line where several rows
    are read beside one another, for each row beyond the `streams` that prefetchers follow. `fetched_store`: stored in
    a burst of short rows on other pages, beyond level 2.
    `begun_3`, `begun`: to begin a row beside others, of a page, until it is prefetched. `contended`: an atomic
    addition to a line that another core has. `pages`: how many pages' places a core knows without asking memory.
    `way`: bytes after which addresses share their places in level 2. `buffered`: stores that a core holds until their
    lines arrive, and goes on meanwhile.

    Cycles of instructions. `crossed`: of a vector that is loaded from two lines. `doubled`: each doubling when the
    lanes of a vector are scanned, and `carried`: from one vector of a scan to the next, which needs its last lane.
    `divided`: a remainder of 64-bit integers. `mispredicted`: a branch whose way is not known before. `widened`:
    extending a vector of two bytes an element beside multiply-adds. `shuffled`: interleaving two vectors. `packed`,
    `packed_turned`: an element of 32 bits that is copied to a panel, and turned on the way, beyond its bytes; `worded`:
    a word of 32 bits, which rows of narrower elements are joined to.
    Of a matrix unit: `matrix_row`: each row of a product, `matrix_latency`: a product that adds to the same sums as the
    one before; `settled`: from an operand in memory to a product's sums in vector registers, as a program waits that
    takes sums there and back; `given_back`: each row of sums that is stored and loaded; `staged`: each row that is
    stored, and loaded by the unit, and `chunked`: how much longer that takes for each doubling of what is stored at
    once, as less of the unit's work goes on beside it; `passed`: a line more that the unit loads from level 2 past
    level 1, where its rows lie apart and not side by side; `reshaped`: to set up its registers.
    """

    loads: float = 2.0
    stores: float = 1.0
    latency: float = 4.0
    level_1: float = 32 << 10
    memory: float = 30e9
    stored_2: float = 2.0
    stored_3: float = 2.0
    stored: float = 2.0
    past_3: float = 1.0
    past: float = 1.0
    past_3_alone: float = 1.0
    past_alone: float = 1.0
    past_store: float = 3.0
    past_straight: float = 6.0
    waited_3: float = 0.5
    waited: float = 0.0
    cache_share: float = LAST_CACHE_SHARE
    own: float = 0.6
    gradual: float = 0.33
    apart: float = 1.0
    store_apart: float = 2.0
    apart_narrow: float = 1.0
    store_apart_narrow: float = 2.0
    apart_alone: float = 0.0
    found: float = 1.75
    index: float = 1.25
    masked: float = 3.0
    across: float = 1.5
    atomic: float = 8.0
    atomic_far: float = 20.0
    update: float = 2.0
    update_far: float = 5.0
    hop: float = 18.0
    line_3: float = 18.0
    line: float = 18.0
    lost_3: float = 0.5
    lost: float = 0.5
    streams: float = 8.0
    pages: float = 2048.0
    fetched_store: float = 0.0
    begun_3: float = 450.0
    begun: float = 450.0
    contended: float = 100.0
    way: float = 64 << 10
    buffered: float = 64.0
    crossed: float = 0.5
    doubled: float = 2.33
    carried: float = 16.0
    divided: float = 8.0
    mispredicted: float = 12.0
    widened: float = 1.25
    shuffled: float = 1.0
    packed: float = 2.5
    packed_turned: float = 3.5
    worded: float = 0.8
    matrix_row: float = 1.0
    matrix_latency: float = 52.0
    settled: float = 120.0
    given_back: float = 3.0
    staged: float = 1.5
    chunked: float = 0.25
    passed: float = 0.8
    reshaped: float = 100.0

    def stored_past(self, cores: int) -> tuple[float, float]:
        """What a byte that is stored past the caches costs level 3 and memory."""
        return (self.past_3_alone, self.past_alone) if cores == 1 else (self.past_3, self.past)


def default_core_costs(register_bytes: int) -> CoreCosts:
    """The costs of a core of which nothing is known but its vector registers: wide ones take two cycles for one."""
    if register_bytes <= WIDE:
        return CoreCosts()
    return CoreCosts(
        loads=1.0, stores=0.5, apart=2.0, store_apart=4.0, apart_narrow=2.0, store_apart_narrow=4.0, found=3.5,
        index=2.5, across=3.0, doubled=3.5, widened=2.5, shuffled=2.0, staged=3.0,
    )  # fmt: skip
