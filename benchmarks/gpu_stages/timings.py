"""What the stage `time` runs: for rows of benchmarks/binaries_rows.py our kernels by their chosen plans, by the plan
that corresponds to the hand-written kernel, that kernel itself in several configurations, and torch; then more sizes
beside torch alone (benchmarks/gpu_cases.py).

Where ours loses and the hand plan does not, the planner is to blame; where both lose, the lowering is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gpu_cases
import torch
import triton
from binaries_rows import ROWS, SMALL
from units import int8_matmul

import vkernels as vk
from vkernels.ir.plan import Plan
from vkernels.library import attention, conv2d, csr_matmul, layer_norm, matmul, softmax
from vkernels.library.attention import attention_rows
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.runtime.dispatch import Launcher

from .gpu import Gpu

CONFIGURATIONS = 6
"""Of a kernel by hand, at most."""
DTYPES = {
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp8e4nv": torch.float8_e4m3fn,
    "i8": torch.int8,
}  # fmt: skip
TOLERANCES = {"fp16": 4e-3, "bf16": 2e-2, "fp32": 1e-5, "tf32": 4e-3, "fp8e4nv": 2e-2, "i8": 0.0}
"""Greatest error as a part of the greatest magnitude. Sums of f8 may be added up in fewer bits than f32 has."""

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Timed:
    """Ways to compute the same, by name; each writes the tensor that it returns. `exact`: in float64. `operations`:
    additions and multiplications, 0 where `moved` bytes count. `plan`: of the way `plan`."""

    name: str
    ways: Mapping[str, Run]
    exact: Run
    tolerance: float
    moved: float
    operations: float = 0.0
    plan: Plan | None = None
    hands: Mapping[str, Run] = field(default_factory=dict)
    """The kernel by hand, by configuration."""

    def error(self, result: torch.Tensor, exact: torch.Tensor) -> float:
        """As a part of the greatest magnitude; infinite for NaN."""
        apart = float((result.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-30))
        return apart if math.isfinite(apart) else math.inf


@contextmanager
def tf32(allowed: bool) -> Any:
    """Within, torch may round f32 operands of matrix products to tf32, or not."""
    matrices = torch.backends.cuda.matmul
    before, matrices.allow_tf32 = matrices.allow_tf32, allowed
    try:
        yield
    finally:
        matrices.allow_tf32 = before


def launched(launch: Any, values: Mapping[str, Any], gpu: Gpu) -> None:
    """Start a kernel by hand."""
    given = {name: values.get(name, launch.numbers.get(name)) for name in launch.types}
    given = {name: gpu.plain(value) if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    launch.kernel[launch.grid](**given, **launch.constants, num_warps=launch.warps, num_stages=launch.stages)


def hands_of(row: Any, values: Mapping[str, Any], result: torch.Tensor, gpu: Gpu, architecture: str) -> dict[str, Run]:
    """The first configurations of a row's one kernel by hand."""
    (launch_of, configurations) = row.parts[""]
    found: dict[str, Run] = {}
    for given in configurations(architecture):
        launch = launch_of(given, architecture)
        if launch is not None and len(found) < (1 if gpu.is_simulated else CONFIGURATIONS):

            def run(launch: Any = launch) -> torch.Tensor:
                launched(launch, values, gpu)
                return result

            found[json.dumps(dict(given))] = run
    return found


def first_configuration(row: Any, architecture: str) -> Mapping[str, Any]:
    (_, configurations) = row.parts[""]
    return next(iter(configurations(architecture)))


def by_plan(kernel: vk.Kernel, plan: Plan, arguments: tuple[Any, ...], result: torch.Tensor) -> Run:
    """The kernel by a plan of ours that does what the kernel by hand does."""
    launcher = Launcher(vk.kernel(plan=plan)(kernel.function))

    def run() -> torch.Tensor:
        launcher(*arguments)
        return result

    return run


class Maker:
    """Makes what rows need on a GPU."""

    def __init__(self, gpu: Gpu):
        self.gpu, self.architecture = gpu, str(gpu.device()["architecture"])

    def normal(self, *shape: int, dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
        return self.gpu.put((torch.randn(shape) * scale).to(dtype))

    def empty(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return self.gpu.put(torch.zeros(shape, dtype=dtype))

    def matmul(self, row: Any, kind: str, size: int, precision: str = "ieee") -> Timed:
        dtype, to = DTYPES[kind], {"i8": torch.int32, "fp8e4nv": torch.float32}.get(kind, DTYPES[kind])
        scale = 4.0 if kind == "i8" else 1.0
        a, b = (self.normal(size, size, dtype=dtype, scale=scale) for _ in range(2))
        ours, planned, hand, other = (self.empty(size, size, dtype=to) for _ in range(4))
        first = first_configuration(row, self.architecture)
        plan = Plan(
            {"i": first["BM"], "j": first["BN"]}, {"k": first["BK"]}, lanes="j", warps=first["warps"],
            stages=first["stages"], swizzle=8,
        )  # fmt: skip
        numbers = dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), size)
        ways: dict[str, Run] = {}
        if kind == "i8":
            ways["ours"] = lambda: _then(int8_matmul(a, b, ours), ours)
            ways["plan"] = by_plan(int8_matmul, plan, (a, b, planned), planned)
            ways["torch"] = lambda: torch._int_mm(a, b)
        else:
            zero = self.empty(1, dtype=to).expand(size)
            ways["ours"] = lambda: matmul(a, b, precision=precision, out=ours)
            arguments = (a, b, zero, planned, "none", precision)
            ways["plan"] = by_plan(matmul_bias, plan, arguments, planned)
            if kind == "fp8e4nv":
                one, turned = self.gpu.put(torch.ones(())), b.t().contiguous().t()
                ways["torch"] = lambda: torch._scaled_mm(a, turned, one, one, out_dtype=torch.bfloat16)
            else:

                def theirs() -> torch.Tensor:
                    with tf32(precision == "tf32"):
                        return torch.mm(a, b, out=other)

                ways["torch"] = theirs
        hands = hands_of(row, {"a": a, "b": b, "c": hand, **numbers}, hand, self.gpu, self.architecture)
        tolerance = TOLERANCES["tf32" if precision == "tf32" else kind]
        return Timed(
            row.name, ways, lambda: a.double() @ b.double(), tolerance, row.moved, 2.0 * size**3, plan, hands
        )  # fmt: skip

    def attention(self, row: Any, heads: int, length: int, width: int, causal: bool) -> Timed:
        half = torch.float16
        q, k, v = (self.normal(1, heads, length, width, dtype=half) for _ in range(3))
        ours, planned, hand = (self.empty(1, heads, length, width, dtype=half) for _ in range(3))
        norms, scale = self.empty(heads, length, dtype=torch.float32), width**-0.5
        first = first_configuration(row, self.architecture)
        plan = Plan(
            {"b": 1, "g": 1, "r": 1, "i": first["BM"]}, {"j": first["BN"], "d": width, "e": width}, online=("j",),
            lanes="i", warps=first["warps"], stages=first["stages"],
        )  # fmt: skip
        turned = [each[:, :, None].transpose(3, 4) for each in (q, planned)]
        theirs = torch.nn.functional.scaled_dot_product_attention
        ways: dict[str, Run] = {
            "ours": lambda: attention(q, k, v, causal=causal, out=ours),
            "torch": lambda: theirs(q, k, v, is_causal=causal),
        }
        if not causal:  # with a band ours runs another kernel, block by block
            ways["plan"] = by_plan(attention_rows, plan, (turned[0], k, v, scale, turned[1]), planned)

        def exact() -> torch.Tensor:
            score = q.double() @ k.double().transpose(2, 3) * scale
            if causal:
                later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
                score.masked_fill_(self.gpu.put(later), float("-inf"))
            return torch.softmax(score, -1) @ v.double()

        values = {"q": q, "k": k, "v": v, "out": hand, "norms": norms, "scale": scale}
        return Timed(
            row.name, ways, exact, 6e-3, row.moved, (2.0 if causal else 4.0) * heads * length**2 * width,
            None if causal else plan, hands_of(row, values, hand, self.gpu, self.architecture),
        )  # fmt: skip

    def rows(self, row: Any, name: str, count: int, columns: int) -> Timed:
        half = torch.float16
        x = self.normal(count, columns, dtype=half)
        weight, bias = (self.normal(columns, dtype=half) for _ in range(2))
        ours, planned, hand = (self.empty(count, columns, dtype=half) for _ in range(3))
        first = first_configuration(row, self.architecture)
        plan = Plan({"i": 1}, {"j": first["BN"]}, lanes="j", warps=first["warps"])
        values = {"x": x, "out": hand, "weight": weight, "bias": bias, "eps": 1e-5}
        ways: dict[str, Run]
        if name == "softmax":
            ways = {
                "ours": lambda: softmax(x, out=ours),
                "plan": by_plan(softmax_rows, plan, (x, planned), planned),
                "torch": lambda: torch.softmax(x, -1),
            }
            exact: Run = lambda: torch.softmax(x.double(), -1)  # noqa: E731
        else:
            norm = torch.nn.functional.layer_norm
            ways = {
                "ours": lambda: layer_norm(x, weight, bias, out=ours),
                "plan": by_plan(layer_norm_rows, plan, (x, weight, bias, 1e-5, planned), planned),
                "torch": lambda: norm(x, (columns,), weight, bias),
            }
            exact = lambda: norm(x.double(), (columns,), weight.double(), bias.double())  # noqa: E731
        hands = hands_of(row, values, hand, self.gpu, self.architecture)
        return Timed(row.name, ways, exact, 4e-3, row.moved, 0.0, plan, hands)

    def convolution(self, row: Any, batch: int, channels: int, side: int, filters: int) -> Timed:
        half, out = torch.float16, side - 2
        image = self.normal(batch, channels, side, side, dtype=half)
        weight = self.normal(filters, channels, 3, 3, dtype=half)
        ours, hand = self.empty(batch, filters, out, out, dtype=half), self.empty(batch, out, out, filters, dtype=half)
        values = {  # by hand, channels are last
            "x": image.permute(0, 2, 3, 1).contiguous(), "weight": weight.permute(2, 3, 1, 0).contiguous(), "out": hand,
        }  # fmt: skip
        runs = hands_of(row, values, hand.permute(0, 3, 1, 2), self.gpu, self.architecture)
        ways = {
            "ours": lambda: conv2d(image, weight, out=ours),
            "torch": lambda: torch.conv2d(image, weight),
        }
        return Timed(
            row.name, ways, lambda: torch.conv2d(image.double(), weight.double()), 6e-3, row.moved,
            18.0 * batch * channels * filters * out * out, None, runs,
        )  # fmt: skip

    def csr(self, row: Any, count: int, each: int, columns: int) -> Timed:
        f32 = torch.float32
        start = self.gpu.put(torch.arange(0, count * each + 1, each, dtype=torch.int32))
        column = self.gpu.put(torch.randint(0, count, (count * each,), dtype=torch.int32))
        value, dense = self.normal(count * each, dtype=f32), self.normal(count, columns, dtype=f32)
        ours, hand = (self.empty(count, columns, dtype=f32) for _ in range(2))
        sparse = torch.sparse_csr_tensor(start, column, value, (count, count))
        values = {"starts": start, "columns": column, "values": value, "dense": dense, "out": hand}
        ways = {
            "ours": lambda: csr_matmul(start, column, value, dense, out=ours, checked=False),
            "torch": lambda: sparse @ dense,
        }

        def exact() -> torch.Tensor:
            taken = dense.double()[column.long()] * value.double()[:, None]
            return taken.view(count, each, columns).sum(1)

        runs = hands_of(row, values, hand, self.gpu, self.architecture)
        return Timed(row.name, ways, exact, 1e-5, row.moved, 0.0, None, runs)


def beside_torch(case: gpu_cases.Case) -> Timed:
    """A case of benchmarks/gpu_cases.py."""
    ways = {"ours": case.ours, **({} if case.theirs is None else {"torch": case.theirs})}
    tolerance = {torch.float32: 1e-4, torch.float16: 1e-2}[case.dtype]
    work = float(case.work)
    return Timed(
        case.kernel, ways, case.exact, tolerance, 0.0 if case.computes else work, work if case.computes else 0.0
    )


def _then(done: object, result: torch.Tensor) -> torch.Tensor:
    return result


def all_timed(gpu: Gpu) -> dict[str, Callable[[], Timed]]:
    """By name, what is timed; its tensors are made when it is called."""
    if hasattr(triton, "set_allocator"):
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    make, by_name = Maker(gpu), {row.name: row for row in ROWS}
    if gpu.is_simulated:
        small = {name: row() for name, row in SMALL.items()}
        return {
            "matmul fp16 256³": lambda: make.matmul(small["matmul fp16 256³"], "fp16", 256),
            "attention d = 32": lambda: make.attention(small["attention d = 32"], 2, 128, 32, False),
            "softmax 5 × 256": lambda: make.rows(small["softmax 5 × 256"], "softmax", 5, 256),
            "layer_norm 5 × 256": lambda: make.rows(small["layer_norm 5 × 256"], "layer_norm", 5, 256),
        }
    found: dict[str, Callable[[], Timed]] = {}
    for name, kind, size, precision in (
        ("matmul fp16 4096³", "fp16", 4096, "ieee"), ("matmul bf16 8192³", "bf16", 8192, "ieee"),
        ("matmul fp32 4096³", "fp32", 4096, "ieee"), ("matmul tf32 4096³", "fp32", 4096, "tf32"),
        ("matmul fp16 4095³", "fp16", 4095, "ieee"), ("matmul fp8e4nv 4096³", "fp8e4nv", 4096, "tf32"),
        ("matmul i8 4096³", "i8", 4096, "ieee"),
    ):  # fmt: skip
        if make.architecture not in by_name[name].without:
            found[name] = lambda name=name, kind=kind, size=size, precision=precision: make.matmul(  # type: ignore[misc]
                by_name[name], kind, size, precision
            )
    for width in (64, 128, 256):
        for causal in (False, True):
            name = f"attention d = {width}{' causal' if causal else ''}"
            found[name] = lambda name=name, width=width, causal=causal: make.attention(  # type: ignore[misc]
                by_name[name], 32, 4096, width, causal
            )
    for kernel, count, columns in (("softmax", 4096, 1024), ("softmax", 4096, 32768), ("layer_norm", 8192, 8192)):
        name = f"{kernel} {count} × {columns}"
        found[name] = lambda name=name, kernel=kernel, count=count, columns=columns: make.rows(  # type: ignore[misc]
            by_name[name], kernel, count, columns
        )
    found["convolution 3×3"] = lambda: make.convolution(by_name["convolution 3×3"], 32, 256, 56, 256)
    found["csr product"] = lambda: make.csr(by_name["csr product"], 1 << 18, 16, 256)
    for kernel, shapes in gpu_cases.TIMED.items():
        for shape in shapes:
            for dtype in (torch.float32, torch.float16):
                name = f"{kernel} {'×'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}"
                found[name] = lambda kernel=kernel, shape=shape, dtype=dtype: beside_torch(  # type: ignore[misc]
                    gpu_cases.CHECKED[kernel][0](*shape, dtype)
                )
    return found
