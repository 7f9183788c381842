"""The natural loops of a kernel's instructions, nested, with what belongs to each of them alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .instructions import Instruction, Kind


@dataclass(frozen=True)
class Region:
    """A loop, or the code outside all loops (`parent` None). Instructions of inner loops are not in it.

    `first`, `last`: addresses, of all its blocks. `parent`: number of the region around it. `is_innermost`: no loop is
    inside. `instructions`: in their order, what each trip issues; `elected`: what one warp of the program does
    alone. What only rare values need is left out: calls that a branch goes around. `role`: where warps have roles,
    loops of other numbers run in other warps, side by side; 0 outside loops, and of all loops where warps have none.
    """

    first: int
    last: int
    parent: int | None
    is_innermost: bool
    instructions: tuple[Instruction, ...] = field(repr=False)
    elected: tuple[Instruction, ...] = field(default=(), repr=False)
    role: int = 0


@dataclass
class _Block:
    start: int
    stop: int
    next: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)


def find_loops(instructions: Sequence[Instruction]) -> list[Region]:
    """The regions of a kernel: first the code outside loops, then each loop, outer ones before inner ones.

    Loops that only wait (for a barrier in memory, for tensor memory), and those for each buffer that lanes of a warp
    access, are no loops here: their one trip belongs to the code around them. Nor is the loop in which warps wait for
    a role, which they have once.
    """
    blocks = _blocks(instructions)
    dominators = _dominators(blocks)
    bodies = _bodies(blocks, dominators, instructions)
    waiting = {header for header, body in bodies.items() if _gives_roles(body, blocks, instructions)}
    roles = _roles(bodies.keys() - waiting, waiting, blocks)
    bodies = {header: body for header, body in bodies.items() if header not in waiting}
    order = sorted(bodies, key=lambda header: (-len(bodies[header]), header))
    number = {header: n for n, header in enumerate(order, 1)}
    reachable = [n for n in range(len(blocks)) if dominators[n] is not None]
    owner = dict.fromkeys(reachable, 0)
    for header in order:  # smaller ones later, so that the innermost stays
        owner |= dict.fromkeys(bodies[header], number[header])
    parents: list[int | None] = [None] + [0] * len(order)
    for inner in order:
        around = [outer for outer in order if inner in bodies[outer] and bodies[inner] < bodies[outer]]
        parents[number[inner]] = number[around[-1]] if around else 0
    regions = []
    for n, parent in enumerate(parents):
        own = sorted(block for block in reachable if owner[block] == n)
        every = sorted(bodies[order[n - 1]]) if n else sorted(reachable)
        latches = [b for b in every if n and order[n - 1] in blocks[b].next]
        always = set.intersection(*(set(_chain(dominators, latch)) for latch in latches)) if latches else set()
        plain, elected = _shared_out(own, always, blocks, instructions, n > 0)
        first = min((instructions[blocks[b].start].address for b in every), default=0)
        last = max((instructions[blocks[b].stop - 1].address for b in every), default=0)
        role = roles[order[n - 1]] if n else 0
        regions.append(Region(first, last, parent, n not in parents, tuple(plain), tuple(elected), role))
    return regions


def find_versions(instructions: Sequence[Instruction]) -> list[Region]:
    """The code outside loops of which a program runs one or another: behind a branch both of whose ways have loops of
    their own. The innermost way counts where such branches follow one another. It is part of the first region, too.
    """
    blocks = _blocks(instructions)
    dominators = _dominators(blocks)
    bodies = _bodies(blocks, dominators, instructions)
    in_loops = set().union(*bodies.values())
    behind: dict[int, set[int]] = {}
    for block in range(len(blocks)):
        if dominators[block] is not None:
            for above in _chain(dominators, block):
                behind.setdefault(above, set()).add(block)
    starts = [
        start
        for number, block in enumerate(blocks)
        if len(block.next) == 2 and number in behind and number not in in_loops
        for start in block.next
        if all(blocks[way].before == [number] and behind[way] & bodies.keys() for way in block.next)
    ]
    found = []
    for start in starts:
        inner = [other for other in starts if other != start and other in behind[start]]
        own = sorted(behind[start] - in_loops - set().union(*(behind[other] for other in inner)))
        plain, elected = _shared_out(own, set(), blocks, instructions, False)
        code = [each for number in own for each in instructions[blocks[number].start : blocks[number].stop]]
        found.append(Region(code[0].address, code[-1].address, None, False, tuple(plain), tuple(elected)))
    return found


def _gives_roles(body: set[int], blocks: list[_Block], instructions: Sequence[Instruction]) -> bool:
    """Whether warps change in a loop how many registers they have: they do as they begin and end a role."""
    code = (each for number in body for each in instructions[blocks[number].start : blocks[number].stop])
    return any(each.opcode.startswith("USETMAXREG") for each in code)


def _roles(headers: Collection[int], waiting: set[int], blocks: list[_Block]) -> dict[int, int]:
    """The role of each loop, by its header: those are of one that lead to each other without a wait for another."""
    found = (
        {header: number for number, header in enumerate(sorted(headers), 1)} if waiting else dict.fromkeys(headers, 0)
    )
    for header in sorted(headers) if waiting else ():
        for after in _led_to(header, waiting, blocks) & found.keys():
            old, new = found[after], found[header]
            found = {each: new if role == old else role for each, role in found.items()}
    return found


def _led_to(block: int, without: set[int], blocks: list[_Block]) -> set[int]:
    """The blocks to which one leads, not by way of some."""
    found, ahead = {block}, [block]
    while ahead:
        for after in blocks[ahead.pop()].next:
            if after not in found and after not in without:
                found.add(after)
                ahead.append(after)
    return found


def _shared_out(
    own: list[int], always: set[int], blocks: list[_Block], instructions: Sequence[Instruction], in_loop: bool
) -> tuple[list[Instruction], list[Instruction]]:
    """What all warps do, and what one does, of a region's own blocks; `always`: blocks that every trip passes."""
    plain: list[Instruction] = []
    elected: list[Instruction] = []
    for number in own:
        code = instructions[blocks[number].start : blocks[number].stop]
        is_aside = number not in always and number != 0
        if is_aside and any(each.opcode.startswith("CALL") for each in code):
            continue
        if is_aside and any(each.once for each in code) and (in_loop or len(blocks[number].before) == 1):
            elected += code
        else:
            plain += code
    return plain, elected


def _blocks(instructions: Sequence[Instruction]) -> list[_Block]:
    at = {each.address: number for number, each in enumerate(instructions)}
    starts = {0}
    for number, each in enumerate(instructions):
        for target in _targets(each):
            if target in at:
                starts.add(at[target])
        if (_targets(each) or not each.falls_through) and number + 1 < len(instructions):
            starts.add(number + 1)
    cuts = [*sorted(starts), len(instructions)]
    blocks = [_Block(start, stop) for start, stop in pairwise(cuts)]
    block_at = {block.start: number for number, block in enumerate(blocks)}
    for number, block in enumerate(blocks):
        last = instructions[block.stop - 1]
        block.next += [block_at[at[target]] for target in dict.fromkeys(_targets(last)) if target in at]
        if last.falls_through and number + 1 < len(blocks):
            block.next.append(number + 1)
        for after in block.next:
            blocks[after].before.append(number)
    return blocks


def _targets(instruction: Instruction) -> tuple[int, ...]:
    return instruction.table if instruction.target is None else (instruction.target,)


def _dominators(blocks: list[_Block]) -> list[int | None]:
    """The immediate dominator of each block, of the first itself; None where nothing leads to a block.

    As Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    order = _postorder(blocks)
    rank = {block: n for n, block in enumerate(order)}
    found: list[int | None] = [None] * len(blocks)
    found[0] = 0
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [before for before in blocks[block].before if found[before] is not None]
            new = known[0]
            for other in known[1:]:
                new = _meet(new, other, found, rank)
            if found[block] != new:
                found[block], changed = new, True
    return found


def _meet(one: int, other: int, found: list[int | None], rank: dict[int, int]) -> int:
    while one != other:
        while rank[one] < rank[other]:
            one = _known(found[one])
        while rank[other] < rank[one]:
            other = _known(found[other])
    return one


def _known(block: int | None) -> int:
    return 0 if block is None else block


def _postorder(blocks: list[_Block]) -> list[int]:
    order: list[int] = []
    seen, waiting = {0}, [(0, iter(blocks[0].next))]
    while waiting:
        block, rest = waiting[-1]
        after = next((each for each in rest if each not in seen), None)
        if after is None:
            order.append(block)
            waiting.pop()
        else:
            seen.add(after)
            waiting.append((after, iter(blocks[after].next)))
    return order


def _chain(dominators: list[int | None], block: int) -> list[int]:
    """A block and all that dominate it."""
    found = [block]
    while (above := dominators[found[-1]]) is not None and above != found[-1]:
        found.append(above)
    return found


def _bodies(
    blocks: list[_Block], dominators: list[int | None], instructions: Sequence[Instruction]
) -> dict[int, set[int]]:
    """The blocks of each natural loop by its header; loops of one header are one loop."""
    bodies: dict[int, set[int]] = {}
    for number, block in enumerate(blocks):
        if dominators[number] is None:
            continue
        for header in block.next:
            if header in _chain(dominators, number):
                body = bodies.setdefault(header, {header})
                waiting = [number]
                while waiting:
                    one = waiting.pop()
                    if one not in body:
                        body.add(one)
                        waiting += [before for before in blocks[one].before if dominators[before] is not None]
    return {header: body for header, body in bodies.items() if not _runs_once(header, body, blocks, instructions)}


_WORKING = frozenset({
    Kind.TENSOR, Kind.FLOAT, Kind.HALF, Kind.DOUBLE, Kind.SPECIAL, Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY,
    Kind.BULK_COPY, Kind.SHARED_LOAD, Kind.SHARED_STORE, Kind.SPILL_LOAD, Kind.SPILL_STORE, Kind.TENSOR_MEMORY,
    Kind.ATOMIC,
})  # fmt: skip
_POLLING = ("SYNCS", "UTCATOMSWS", "NANOSLEEP", "s_sleep")


def _runs_once(header: int, body: set[int], blocks: list[_Block], instructions: Sequence[Instruction]) -> bool:
    code = [each for number in sorted(body) for each in instructions[blocks[number].start : blocks[number].stop]]
    return _only_waits(code) or _is_for_each_resource(instructions[blocks[header].start], code)


def _is_for_each_resource(first: Instruction, code: Sequence[Instruction]) -> bool:
    """Whether AMD's compiler made a loop for an access whose buffer is in vector registers: the trip takes the lanes
    that have the first lane's buffer, which are all where they access one tensor."""
    takes_lanes = any(each.opcode.startswith("s_and_saveexec") for each in code)
    return first.opcode.startswith("v_readfirstlane") and takes_lanes and code[-1].opcode == "s_cbranch_execnz"


def _only_waits(code: Sequence[Instruction]) -> bool:
    if any(each.kind in _WORKING for each in code):
        return False
    return any(each.opcode.startswith(_POLLING) for each in code) or all(each.kind is Kind.BRANCH for each in code)
