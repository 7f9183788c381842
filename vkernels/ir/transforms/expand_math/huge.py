"""Exact reduction of huge arguments, after Payne & Hanek (SIGNUM Newsletter 18, 1983), in floating point only.

1 / 2π is a sum of pieces of few bits, so that each product with x is exact; only the fraction of each product, in
turns, matters. Pieces with whole products are skipped. Few elements need this: it runs only if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region

from ...dialect import MaxOp, axes_of
from .formula import ROUNDER, exact_sum, power_of_two
from .values import Float, select

TWO_PI = (6.283185307179586, 2.4492935982947064e-16)
PIECE_BITS = 26
PIECES = (
    10680707, 28915984, 22192066, 30798973, 20241856, 57510486, 26461241, 1081236, 23309278,
    49223046, 57820899, 43029364, 48236105, 12298279, 18424271, 59210439, 11610535, 16491016,
    56578795, 47259962, 27029542, 47283705, 1284381, 26108116, 54129820, 34700846, 64983683,
    46661157, 67100165, 39862204, 49354933, 42113863, 57489022, 54304556, 10188020, 26204583,
    39840301, 30711531, 8306271, 6213441, 54130570, 21646249, 46118395, 4711255, 17323523,
    12655601,
)  # fmt: skip
"""1 / 2π = Σ PIECES[k] 2**(-26 (k + 1))."""


def fraction(x: Float) -> Float:
    """x minus the nearest whole number: exact."""
    return x - x.round()


def sum_exactly(terms: list[Float]) -> tuple[Float, Float, Float]:
    """The sum of terms, as three parts of decreasing size."""
    total, error, rest = terms[0], terms[0].const(0.0), terms[0].const(0.0)
    for term in terms[1:]:
        total, lost = exact_sum(total, term)
        error, lost = exact_sum(error, lost)
        rest = rest + lost
    return total, error, rest


def to_angle(terms: list[Float]) -> list[Float]:
    """r, low, and n + ROUNDER from terms in turns: 2π Σ terms = n π/2 + r + low, up to whole turns."""
    total, error, rest = sum_exactly(terms)
    shifter = 4.0 * total + ROUNDER[False]
    near = total - 0.25 * (shifter - ROUNDER[False])
    turns, left = exact_sum(near, error)
    left = left + rest
    r = turns * TWO_PI[0]
    low = turns.fma(TWO_PI[0], -r) + turns.fma(TWO_PI[1], left * TWO_PI[0])
    total = r + low
    return [total, (r - total) + low, shifter]


def huge_single(x: Float) -> list[Float]:
    """r and n + ROUNDER of any f32 number, given as f64."""
    count = (128 + 24 + 60) // PIECE_BITS
    scaled = [float(PIECES[k]) * 2.0 ** (-PIECE_BITS * (k + 1)) for k in range(count)]
    r, _, shifter = to_angle([fraction(x * piece) for piece in scaled])
    return [r, shifter]


WINDOW = 8
"""Pieces that matter for one f64 number: 53 bits of it, 25 of alignment, 61 of cancellation, 60 of result."""


def huge_double(x: Float) -> list[Float]:
    """r, low and n + ROUNDER of any f64 number of 1 or more."""
    exponent = (((x.bits() >> 52) & 0x7FF) - 1023).to_float()
    first = ((exponent - 52.0) / float(PIECE_BITS)).floor().at_least(0.0)
    x = x * power_of_two(ROUNDER[False] - float(PIECE_BITS) * first)
    high = (x.bits() & -(1 << 27)).as_float()
    terms = []
    for k, piece in enumerate(window(first)):
        scaled = piece * 2.0 ** (-PIECE_BITS * (k + 1))
        terms += [fraction(high * scaled), fraction((x - high) * scaled)]
    return to_angle(terms)


def window(first: Float) -> list[Float]:
    """Pieces `first`, `first` + 1, …, as numbers: a barrel shifter of selects."""
    nothing = first.const(0.0)
    pieces = [first.const(float(piece)) for piece in PIECES]
    for step in (32, 16, 8, 4, 2, 1):
        far = first > step - 0.5
        first = select(far, first - float(step), first)
        shifted = pieces[step:] + [nothing] * step
        pieces = [select(far, shifted[k], pieces[k]) for k in range(min(WINDOW + step - 1, len(pieces)))]
    return pieces


def unless_rare(size: Float, limit: float, common: Sequence[Float], rare: Callable[[], Sequence[Float]]) -> list[Float]:
    """`common`, but `rare()` for the elements where `size` exceeds the limit.

    The operations of `rare` run only if a scalar or an element of the tile is that large, so otherwise it costs one
    reduction; for vectors, which have no reduction here, they always run. Each result depends on its element alone.
    """
    emitter = size.emitter
    if not isinstance(size.type, TensorType) and size.type != size.element:
        return _choose(size, limit, common, rare())
    largest = size
    for axis in reversed(axes_of(size.type)):
        largest = Float(emitter, emitter.append(MaxOp(largest.ssa, axis))[0])
    condition = largest.not_at_most(limit)  # a NaN would hide larger elements
    with emitter.nested() as inside:
        chosen = _choose(size, limit, common, rare())
        inside.append(scf.YieldOp(*(value.ssa for value in chosen)))
    otherwise = Block([scf.YieldOp(*(value.ssa for value in common))])
    types = [value.type for value in common]
    branch = scf.IfOp(condition.ssa, types, Region(Block(inside)), Region(otherwise))
    return [Float(emitter, result) for result in emitter.append(branch)]


def _choose(size: Float, limit: float, common: Sequence[Float], rare: Sequence[Float]) -> list[Float]:
    large = size > limit
    return [select(large, unusual, usual) for unusual, usual in zip(rare, common, strict=True)]
