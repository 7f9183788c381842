"""Mapped IR for tests: one tile, loaded, computed with and stored."""

from __future__ import annotations

from collections.abc import Sequence


def tile(element: str, **sizes: int) -> str:
    """A tile's type: `tile("f32", i=2, j=5)`."""
    if not sizes:
        return element
    shape = "x".join(map(str, sizes.values()))
    return f"tensor<{shape}x{element}, #vk.axes<{', '.join(sizes)}>>"


def facts(strides: dict[str, Sequence[int]] | None = None, distinct: bool = True) -> str:
    """Facts with known strides."""
    entries = [f"{name} = [{', '.join(f'{n} : i64' for n in known)}]" for name, known in (strides or {}).items()]
    text = f"facts {{sizes = {{}}, multiples = {{}}, strides = {{{', '.join(entries)}}}"
    return text + (", distinct}" if distinct else "}")


def elementwise(size: int, operands: Sequence[str], body: str, result: str, lanes: str = "lanes j") -> str:
    """One program over one tile of `size`: `body` computes %r from %a, %b, … of the operands' element types."""
    names = "abcd"[: len(operands)]
    parameters = [f"%p{name}: !vk.tensor<[N], {element}>" for name, element in zip(names, operands, strict=True)]
    known = facts({f"p{name}": [1] for name in names} | {"out": [1]})
    loads = "\n".join(
        f"%{name} = vk.load %p{name}[j] : !vk.tensor<[N], {element}> -> {tile(element, j=size)}"
        for name, element in zip(names, operands, strict=True)
    )
    return f"""
vk.mapped @test({", ".join(parameters)}, %out: !vk.tensor<[N], {result}>) {lanes} {known} {{
  %one = arith.constant 1 : i64
  vk.launch "test" over (%p = %one) {{
    {loads}
    {body}
    vk.store %r in %out[j] : !vk.tensor<[N], {result}> <- {tile(result, j=size)}
  }}
}}
"""


def matmul_text(element: str, total: str, signs: str = "ss") -> str:
    """A product of matrices as written, of operands that are extended to the type of the sum: `signs` of both."""
    zero = "0" if element == "i8" else "0.0"
    extend, other = (f"arith.ext{sign}i" if element == "i8" else "arith.extf" for sign in signs)

    def tile(of: str, axes: str) -> str:
        return f"tensor<?x?x{of}, #vk.axes<{axes}>>"

    inputs = f"%a: !vk.tensor<[M, K], {element}>, %b: !vk.tensor<[K, N], {element}>"
    tiles = f"{tile(total, 'i, k')}, {tile(total, 'k, j')}, {tile(total, 'i, j')}"
    return f"""
vk.kernel @matmul({inputs}, %out: !vk.tensor<[M, N], {total}>) {{
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], {element}> -> {tile(element, "i, k")}
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], {element}> -> {tile(element, "k, j")}
  %xw = {extend} %x : {tile(element, "i, k")} to {tile(total, "i, k")}
  %yw = {other} %y : {tile(element, "k, j")} to {tile(total, "k, j")}
  %zero = arith.constant {zero} : {total}
  %init = vk.broadcast %zero : {total} -> {tile(total, "i, j")}
  %p = vk.dot %xw, %yw, %init along k precision ieee : {tiles}
  vk.store %p in %out[i, j] : !vk.tensor<[M, N], {total}> <- {tile(total, "i, j")}
}}
"""
