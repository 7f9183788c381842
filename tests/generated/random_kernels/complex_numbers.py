"""Complex numbers of two floats: arithmetic, sums and dots of the language, of which the parts go on."""

from __future__ import annotations

from vkernels.language import operations as vk
from vkernels.language.values import ComplexTile

from .authored import Author, authored
from .steps import pick, tamed
from .values import EXACT, MOST_ELEMENTS, Kernel, Value


def complex_numbers(kernel: Kernel, depth: int) -> Value | None:
    """A part of a complex value made of live floats, all of them exact; the other part is live, too."""
    choose = kernel.random
    first = tamed(kernel, pick(kernel, kind="f"))
    same = [value for value in kernel.live if value.element == first.element]
    parts = [first, *(tamed(kernel, choose.choice(same or [first])) for _ in range(3))]
    axes = list(dict.fromkeys(axis for part in parts for axis in part.axes))
    exact = all(part.is_exact and not part.special for part in parts)
    if first.element not in EXACT or not exact or kernel.extent(axes) > MOST_ELEMENTS:
        return None
    bound = max(part.bound for part in parts)
    shared = [a for a in axes if not kernel.axes[a].is_tile and all(a in part.axes for part in parts)]
    with authored(kernel) as author:
        made, bound = _made(author, parts, bound, shared)
        found = [Value(tile.ssa, tile.names, first.element, bound) for tile in author.builder.tiles(made)]
    if bound > EXACT[first.element]:
        return None
    kernel.live.append(found[0])
    return found[1]


def _made(author: Author, parts: list[Value], bound: float, shared: list[str]) -> tuple[ComplexTile, float]:
    choose, builder = author.kernel.random, author.builder
    a, b, c, d = map(author.tile, parts)
    z, w = vk.complex(a, b), vk.complex(c, d)
    match choose.choice(["product", "conjugate", "sum", "difference", "square", *(["total", "dot"] * bool(shared))]):
        case "product":
            return builder.binary("*", z, w), 2 * bound**2
        case "conjugate":
            return builder.binary("*", z, vk.conj(w)), 2 * bound**2
        case "sum":
            return builder.binary("+", z, builder.binary("*", 2j, w)), 3 * bound
        case "difference":
            return builder.binary("-", w, z), 2 * bound
        case "square":
            return builder.binary("**", z, 2), 2 * bound**2
        case "total":
            axis = choose.choice(shared)
            return vk.sum(z, author.axis(axis)), bound * author.kernel.axes[axis].extent
        case _:
            axis = choose.choice(shared)
            return vk.dot(z, w, axis=author.axis(axis)), 2 * bound**2 * author.kernel.axes[axis].extent
