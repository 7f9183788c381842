"""Kernels as objects: what decorators accept, where text comes from, what a signature is, what importing costs."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from jaxtyping import Bool, Float, Float32, Int, Integer, Num, Shaped, UInt, UInt8

import vkernels as vk

from .signatures import plain_signature


@vk.kernel
def double(x: Float[vk.Tensor, "M 3 _"], out: Float[vk.Tensor, "M 3 _"], factor: vk.Scalar = 2.0):
    """Doubles."""
    i = vk.tile("M")
    j = vk.whole(3)
    out[i, j, 0] = x[i, j, 0] * factor


def test_parameters():
    @vk.kernel
    def kernel(
        a: Float32[vk.Tensor, "M N"],
        b: Int[vk.Tensor, "N 4"],
        c: Bool[vk.Tensor, ""],
        d: Shaped[vk.Tensor, "_"],
        e: Num[vk.Tensor, "M"],
        f: float,
        g: int = 3,
        h: bool = True,
        k: vk.Scalar = 1,
        mode: vk.Constant = "none",
    ):
        pass

    by_name = {p.name: p for p in kernel.parameters}
    assert by_name["a"].dtypes == ("float32",)
    assert by_name["b"].dimensions == ("N", 4)
    assert by_name["b"].dtypes == ("int8", "int16", "int32", "int64")
    assert (by_name["c"].dimensions, by_name["c"].dtypes) == ((), ("bool",))
    assert by_name["d"].dimensions == ("_",)
    assert len(by_name["d"].dtypes) == 15
    assert "bool" not in by_name["e"].dtypes
    assert [by_name[n].dtypes for n in "fghk"] == [("f64",), ("i64",), ("i1",), ("f64", "i64", "i1")]
    assert (by_name["mode"].kind, by_name["mode"].default) == ("constant", "none")
    assert by_name["a"].default is vk.Parameter.MISSING
    assert kernel.sizes == ("M", "N")


def test_annotations_of_unsigned_integers():
    """As jaxtyping's: `Int` has a sign, `UInt` none, `Integer` and `Num` are both."""

    @vk.kernel
    def kernel(a: UInt8[vk.Tensor, "M"], b: UInt[vk.Tensor, "M"], c: Integer[vk.Tensor, "M"], d: Num[vk.Tensor, "M"]):
        pass

    unsigned, signed = ("uint8", "uint16", "uint32", "uint64"), ("int8", "int16", "int32", "int64")
    by_name = {p.name: p.dtypes for p in kernel.parameters}
    assert (by_name["a"], by_name["b"]) == (("uint8",), unsigned)
    assert set(by_name["c"]) == {*signed, *unsigned}
    assert set(by_name["c"]) < set(by_name["d"])


def test_signature():
    signature = double.signature(x=vk.float32, out="float64")
    assert signature.tensors == (("x", "float32"), ("out", "float64"))
    assert signature.scalars == (("factor", "f64"),)
    assert double.signature(x=vk.float32, out="float64", factor=int) != signature
    assert hash(double.signature(x=vk.float32, out="float64")) == hash(signature)
    with pytest.raises(vk.ArgumentError, match="Did you mean `factor`"):
        double.signature(factr=int)


def test_signatures_that_do_not_fit():
    with pytest.raises(vk.ArgumentError, match="says nothing of the tensor `out`"):
        double.build(double.signature(x="float32"))
    with pytest.raises(vk.ArgumentError, match="`x` is int32, expected one of"):
        double.build(double.signature(x="int32", out="float32"))

    @vk.kernel
    def needs(mode: vk.Constant):
        pass

    with pytest.raises(vk.ArgumentError, match="no value to the constant `mode`"):
        needs.build(needs.signature())


def test_builds_are_new():
    signature = plain_signature(double)
    assert double.build(signature) is not double.build(signature)
    assert str(double.build(signature)) == str(double.build(signature))


def test_repr_and_docstring():
    assert repr(double) == "<vk.kernel double(x, out, factor)>"
    assert double.__doc__ == "Doubles."
    assert repr(vk.float32) == "vk.float32"


def test_plans():
    plan = vk.Plan(tiles={"i": 4})

    @vk.kernel(plan=plan)
    def pinned(x: Float[vk.Tensor, "M"]):
        pass

    limits = vk.Limits(32, 32, 1 << 20, 2, 1 << 22)
    assert pinned.plan_for({}, {}, limits) == plan
    assert double.plan_for({}, {}, limits) is None

    @pinned.plan
    def planner(sizes, dtypes, limits):
        return vk.Plan(tiles={"i": sizes["M"]})

    assert pinned.plan_for({"M": 7}, {}, limits).tiles == {"i": 7}
    assert planner({"M": 3}, {}, limits).tiles == {"i": 3}


def test_helpers_are_not_called_from_python():
    @vk.function
    def helper(x):
        return x

    with pytest.raises(vk.UnsupportedError, match="only a kernel calls it"):
        helper(3)


def test_checked_kernels_are_interpreted():
    @vk.kernel(checked=True)
    def gather(x: Float[vk.Tensor, "N"], index: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
        i = vk.tile("M")
        out[i] = x[index[i]]

    x, out = np.arange(4.0), np.zeros(2)
    gather(x, np.array([3, 1]), out)
    assert out.tolist() == [3, 1]
    with pytest.raises(vk.CheckError, match="4"):
        gather(x, np.array([0, 4]), out)


def test_closures_and_globals():
    shift = 3.5

    @vk.function
    def moved(x):
        return x + shift

    @vk.kernel
    def kernel(x: Float[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
        i = vk.tile("M")
        out[i] = moved(x[i]) * shift

    out = np.zeros(2)
    kernel.interpret(np.array([0.5, 1.5]), out)
    assert out.tolist() == [14.0, 17.5]


@pytest.mark.parametrize("run", ["__call__", "interpret"])
def test_sizes_without_a_name(run):
    @vk.kernel
    def rows(start: Int[vk.Tensor, "_"], x: Float[vk.Tensor, "_ _"], out: Float[vk.Tensor, "M"]):
        i = vk.tile("M")
        j = vk.whole(x.shape[1])
        out[i] = vk.sum(x[start[i + 1], j], axis=j)

    start, x, out = np.array([9, 0, 2, 1]), np.arange(12.0).reshape(3, 4), np.full(3, np.nan)
    getattr(rows, run)(start, x, out)
    assert out.tolist() == x.sum(1)[start[1:]].tolist()


def test_text_that_cannot_be_found():
    names = {"vk": vk, "Float": Float}
    exec('def kernel(x: Float[vk.Tensor, "M"]):\n    pass\n', names)
    kernel = vk.kernel(names["kernel"])
    with pytest.raises(vk.UnsupportedError, match="source text of `kernel` cannot be found"):
        kernel.build(plain_signature(kernel))


@pytest.mark.parametrize(
    "other", [lambda: None, np.exp, int, 3, double], ids=["lambda", "ufunc", "type", "number", "kernel"]
)
def test_only_functions_are_kernels(other):
    with pytest.raises(vk.UnsupportedError, match=r"(?s)expected a function, got .*Write a kernel with `def`"):
        vk.kernel(other)


def test_a_grid_is_refused():
    with pytest.raises(vk.UnsupportedError, match=r"(?s)without a grid.*`double\(x, out, factor\)`"):
        double[(4,)]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8])
def test_numbers_of_numpy_are_numbers(kind):
    two, three, five, yes = kind(2), kind(3), kind(5), np.bool_(True)

    @vk.kernel
    def shifted(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], s: vk.Scalar = three, c: vk.Constant = five):
        i = vk.tile("N")
        out[i] = vk.where(yes, x[i] * two + s * c - two / 4, 0.0)

    x, out = np.arange(5.0, dtype=np.float32), np.empty(5, np.float32)
    shifted(x, out)
    assert out.tolist() == [2 * value + 14.5 for value in range(5)]
    shifted(x, out, kind(1), kind(2))
    assert out.tolist() == [2 * value + 1.5 for value in range(5)]


def run_python(text: str) -> str:
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True)
    return result.stdout


def test_importing_is_light():
    heavy = "torch", "xdsl", "triton", "llvmlite", "scipy", "sympy", "sklearn"
    assert run_python(f"import sys, vkernels; print([m for m in {heavy} if m in sys.modules])").strip() == "[]"


def test_kernels_typed_at_a_prompt_say_where_to_write_them():
    text = run_python(
        """
        import vkernels as vk
        @vk.kernel
        def kernel():
            pass
        try:
            kernel.build(kernel.signature())
            print("built")
        except vk.UnsupportedError as error:
            print(error)
        """
    )
    assert "define it in a file" in text or "built" in text


def test_every_operation_is_documented():
    from vkernels.language import operations

    for name in operations.__all__:
        doc = getattr(operations, name).__doc__
        assert doc, name
        assert doc.strip().split("\n")[0].endswith((".", ":", '"', ")")), name


def test_the_package_gives_the_whole_language():
    from vkernels import language
    from vkernels.language import operations

    assert set(operations.__all__) <= set(language.__all__) <= set(vk.__all__)
    for name in set(language.__all__) - {"load"}:  # which outside of kernels opens bundles
        assert getattr(vk, name) is getattr(language, name)


@vk.kernel
def scaled(x: Float[vk.Tensor, "N"], factor: vk.Scalar, real: float, out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * factor * real


@pytest.mark.parametrize("first", [2, np.array(2), np.int8(2), True])
def test_scalars_of_another_kind_are_not_taken_for_the_first(first):
    x, out = np.ones(3), np.zeros(3)
    for factor in first, np.array(2.5), np.float32(2.5), 2.5, np.array(3):
        scaled(x, factor, 2, out)
        assert out.tolist() == [2.0 * factor] * 3


def test_scalars_of_the_wrong_kind():
    x = np.ones(3)
    with pytest.raises(vk.ArgumentError, match="argument `real`: expected float, got bool True"):
        scaled(x, 2, True, x)


def test_floats_of_eight_bits():
    torch = pytest.importorskip("torch")
    for run in (scaled, scaled.interpret):
        x, out = torch.ones(3).to(torch.float8_e5m2), torch.zeros(3)
        run(x, 2, 2.0, out)
        assert out.tolist() == [4, 4, 4]


def test_a_kernel_that_stores_nothing_gives_a_warning():
    @vk.kernel
    def forgetful(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        vk.exp(x[i])

    with pytest.warns(vk.KernelWarning, match=r"test_kernel\.py:\d+: `forgetful` stores nothing"):
        forgetful.build(plain_signature(forgetful))


def test_tensors_are_no_arrays():
    with pytest.raises(vk.ArgumentError, match="it is the type of a kernel's parameter"):
        vk.Tensor(3)
