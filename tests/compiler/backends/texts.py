"""Kernels in TTIR, compiled once a session for each architecture asked for."""

from __future__ import annotations

from functools import cache

import pytest
import triton

from vkernels.compiler.backends.architectures import architectures
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions, compile_ttir

N = 1024
I32, F32, POINTERS = f"tensor<{N}xi32>", f"tensor<{N}xf32>", f"tensor<{N}x!tt.ptr<f32>>"
HINT = "{tt.divisibility = 16 : i32}"

# Of a program's N elements: %i counts them from 0, %at among all programs' elements; %x and %out are its pointers.
_HEAD = f"""
module {{
  tt.func public @kernel(%in: !tt.ptr<f32> {HINT}, %to: !tt.ptr<f32> {HINT}) {{
    %pid = tt.get_program_id x : i32
    %n = arith.constant {N} : i32
    %first = arith.muli %pid, %n : i32
    %i = tt.make_range {{end = {N} : i32, start = 0 : i32}} : {I32}
    %firsts = tt.splat %first : i32 -> {I32}
    %at = arith.addi %firsts, %i : {I32}
    %ins = tt.splat %in : !tt.ptr<f32> -> {POINTERS}
    %tos = tt.splat %to : !tt.ptr<f32> -> {POINTERS}
    %x = tt.addptr %ins, %at : {POINTERS}, {I32}
    %out = tt.addptr %tos, %at : {POINTERS}, {I32}
    %four = arith.constant dense<4> : {I32}
    %last = arith.constant dense<{N - 1}> : {I32}
    %offset = arith.muli %i, %four : {I32}
    %mirrored = arith.subi %last, %i : {I32}
    %other = arith.muli %mirrored, %four : {I32}
"""
_TAIL = """
    tt.return
  }
}
"""


def kernel(body: str) -> str:
    """A module of one kernel with this body."""
    return _HEAD + body + _TAIL


COPY = kernel(f"""
    %v = tt.load %x : {POINTERS}
    tt.store %out, %v : {POINTERS}
""")

REVERSE = kernel(f"""
    %v = tt.load %x : {POINTERS}
    %bits = tt.bitcast %v : {F32} -> {I32}
    %s = tt.elementwise_inline_asm "vk.store.i32" {{constraints = "=r,r,r", packed_element = 1 : i32, pure = false}} %offset, %bits : {I32}, {I32} -> {I32}
    gpu.barrier
    %l = tt.elementwise_inline_asm "vk.load.i32" {{constraints = "=r,r", packed_element = 1 : i32, pure = false}} %other : {I32} -> {I32}
    %r = tt.bitcast %l : {I32} -> {F32}
    tt.store %out, %r : {POINTERS}
""")  # noqa: E501

SWAP = kernel(f"""
    %v = tt.load %x : {POINTERS}
    tt.store %out, %v : {POINTERS}
    gpu.barrier
    %opposite = arith.addi %firsts, %mirrored : {I32}
    %written = tt.addptr %tos, %opposite : {POINTERS}, {I32}
    %w = tt.load %written : {POINTERS}
    %sum = arith.addf %v, %w : {F32}
    gpu.barrier
    tt.store %out, %sum : {POINTERS}
""")


def matmul(m: int, n: int, k: int, *, accumulators: int = 1) -> str:
    """Tiles of f16 multiplied into `accumulators` tiles of f32 over `%steps` steps of `k`."""
    left, right, sums = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{m}x{n}xf32>"

    def pointers(kind: str) -> str:
        shape, dtype = kind[7:-1].rsplit("x", 1)
        return f"tensor<{shape}x!tt.ptr<{dtype}>>"

    def tile(name: str, base: str, rows: int, columns: int, dtype: str) -> str:
        kind = f"tensor<{rows}x{columns}x!tt.ptr<{dtype}>>"
        return f"""
    %{name}_i = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32>
    %{name}_j = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : tensor<{columns}xi32>
    %{name}_row = tt.expand_dims %{name}_i {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
    %{name}_column = tt.expand_dims %{name}_j {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
    %{name}_stride = tt.splat %stride : i32 -> tensor<{rows}x1xi32>
    %{name}_start = arith.muli %{name}_row, %{name}_stride : tensor<{rows}x1xi32>
    %{name}_starts = tt.broadcast %{name}_start : tensor<{rows}x1xi32> -> tensor<{rows}x{columns}xi32>
    %{name}_columns = tt.broadcast %{name}_column : tensor<1x{columns}xi32> -> tensor<{rows}x{columns}xi32>
    %{name}_at = arith.addi %{name}_starts, %{name}_columns : tensor<{rows}x{columns}xi32>
    %{name}_base = tt.splat %{base} : !tt.ptr<{dtype}> -> {kind}
    %{name} = tt.addptr %{name}_base, %{name}_at : {kind}, tensor<{rows}x{columns}xi32>
"""

    names = [f"s{i}" for i in range(accumulators)]
    dots = "\n".join(
        f"      %{s}_new = tt.dot %av, %bv, %{s}, inputPrecision = ieee : {left} * {right} -> {sums}" for s in names
    )
    adds = "\n".join(
        f"    %t{i} = arith.addf {'%zero' if i == 0 else f'%t{i - 1}'}, %r#{i + 2} : {sums}"
        for i in range(accumulators)
    )
    kinds = ", ".join([pointers(left), pointers(right)] + [sums] * accumulators)
    return f"""
module {{
  tt.func public @matmul(%a: !tt.ptr<f16> {HINT}, %b: !tt.ptr<f16> {HINT}, %c: !tt.ptr<f32> {HINT}, %stride: i32 {HINT}, %steps: i32) {{
    %zero = arith.constant dense<0.0> : {sums}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %ck = arith.constant {k} : i32
    {tile("ap", "a", m, k, "f16")}{tile("bp", "b", k, n, "f16")}{tile("cp", "c", m, n, "f32")}
    %right = tt.splat %ck : i32 -> tensor<{m}x{k}xi32>
    %below = arith.muli %stride, %ck : i32
    %down = tt.splat %below : i32 -> tensor<{k}x{n}xi32>
    %r:{accumulators + 2} = scf.for %step = %c0 to %steps step %c1 iter_args(%ai = %ap, %bi = %bp, {", ".join(f"%{s} = %zero" for s in names)}) -> ({kinds}) : i32 {{
      %av = tt.load %ai : {pointers(left)}
      %bv = tt.load %bi : {pointers(right)}
{dots}
      %an = tt.addptr %ai, %right : {pointers(left)}, tensor<{m}x{k}xi32>
      %bn = tt.addptr %bi, %down : {pointers(right)}, tensor<{k}x{n}xi32>
      scf.yield %an, %bn, {", ".join(f"%{s}_new" for s in names)} : {kinds}
    }}
{adds}
    tt.store %cp, %t{accumulators - 1} : {pointers(sums)}
    tt.return
  }}
}}
"""  # noqa: E501


def compiled(
    text: str, architecture: str, *, warps: int = 4, stages: int = 2, scratch: int = 0, settings: str = "{}"
) -> Binary:
    """The binary; skips the test where the installed Triton does not compile for the architecture."""
    reason = architectures(triton.__version__)[architecture]
    if reason:
        pytest.skip(f"Triton {triton.__version__} does not compile for {architecture}: {reason}")
    return _compiled(text, architecture, GpuOptions(warps, stages, scratch, settings))


@cache
def _compiled(text: str, architecture: str, options: GpuOptions) -> Binary:
    return compile_ttir(text, architecture, options)


def exchange_in_a_loop() -> str:
    """In each step a program's threads hand each other what they loaded, always at the same places of scratchpad."""
    return kernel(f"""
    %zero = arith.constant dense<0.0> : {F32}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %steps = arith.constant 64 : i32
    %step = arith.constant dense<{N}> : {I32}
    %end:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%total = %zero, %p = %x) -> ({F32}, {POINTERS}) : i32 {{
      %v = tt.load %p : {POINTERS}
      %bits = tt.bitcast %v : {F32} -> {I32}
      %s = tt.elementwise_inline_asm "vk.store.i32" {{constraints = "=r,r,r", packed_element = 1 : i32, pure = false}} %offset, %bits : {I32}, {I32} -> {I32}
      gpu.barrier
      %l = tt.elementwise_inline_asm "vk.load.i32" {{constraints = "=r,r", packed_element = 1 : i32, pure = false}} %other : {I32} -> {I32}
      gpu.barrier
      %r = tt.bitcast %l : {I32} -> {F32}
      %sum = arith.addf %total, %r : {F32}
      %next = tt.addptr %p, %step : {POINTERS}, {I32}
      scf.yield %sum, %next : {F32}, {POINTERS}
    }}
    tt.store %out, %end#0 : {POINTERS}
""")  # noqa: E501
