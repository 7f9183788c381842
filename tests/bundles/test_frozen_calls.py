"""Calls of kernels in a bundle: the same results as by compiling, for what it has code for, and errors for the rest."""

import subprocess
import sys
import textwrap
from contextlib import nullcontext

import numpy as np
import pytest
import torch

import vkernels as vk
from tests.bundles import kernels
from vkernels.runtime import perf_map, vendor_ranges
from vkernels.runtime.determinism import using_deterministic
from vkernels.runtime.tracing import tracing


@pytest.fixture(scope="module")
def strict(net, secret):
    return vk.load(net, frozen=True, trust=secret)


@pytest.fixture(scope="module")
def lenient(net, secret):
    return vk.load(net, trust=secret, fallback="plain")


def drawn(*shape):
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(6, 37)])
@pytest.mark.parametrize("as_torch", [False, True])
def test_results_have_the_bits_of_compiled_calls(strict, shape, as_torch):
    x, frozen, compiled = drawn(*shape), *np.full((2, *shape), np.nan, np.float32)
    kernels.softmax(x, compiled)
    given = (torch.from_numpy(x), torch.from_numpy(frozen)) if as_torch else (x, frozen)
    strict.softmax(*given)
    assert frozen.tobytes() == compiled.tobytes()


def test_a_call_in_place_runs_code_of_its_own(strict):
    x = drawn(6, 37)
    expected = np.full_like(x, np.nan)
    kernels.scale(x, 3.0, expected)
    strict.scale(x, factor=3.0, out=x)
    assert x.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(1, 1), (40, 100), (2, 5000)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_plain_code_serves_any_sizes_and_strides(lenient, shape, order):
    x = np.asarray(drawn(*shape), order=order)
    out = np.full_like(x, np.nan)
    lenient.softmax(x, out)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x: (x[:4], np.empty_like(x[:4])), "no code for M=4, N=37"),
        (lambda x: (np.asfortranarray(x), np.empty_like(x)), "with these strides"),
        (lambda x: (x.astype(np.float64), np.empty(x.shape)), "no code for x=float64, out=float64"),
    ],
)
def test_what_it_has_no_code_for_is_refused(strict, make, said):
    x, out = make(drawn(6, 37))
    before = out.tobytes()
    with pytest.raises(vk.NotInBundleError, match=said):
        strict.softmax(x, out)
    assert out.tobytes() == before


def test_arguments_are_checked_as_always(strict):
    with pytest.raises(vk.ArgumentError, match="argument `out` is missing"):
        strict.softmax(drawn(6, 37))
    x = drawn(7, 37)
    with pytest.raises(vk.ArgumentError, match="a part of it"):
        strict.softmax(x[1:], x[:-1])
    with pytest.raises(AttributeError, match="did you mean softmax"):
        strict.softmx  # noqa: B018


def test_it_compiles_nothing(strict):
    before = vk.stats().kernels.get("softmax")
    strict.softmax(drawn(6, 37), np.empty((6, 37), np.float32))
    after = vk.stats().kernels["softmax"]
    assert after.compiles == (0 if before is None else before.compiles)


def test_deterministic_calls_need_a_bundle_for_them(strict):
    with using_deterministic(True), pytest.raises(vk.NotInBundleError, match="not deterministic"):
        strict.softmax(drawn(6, 37), np.empty((6, 37), np.float32))


def test_a_process_without_compilers_runs_it(net, secret):
    """Modules that only compilers need cannot be imported, nor can torch."""
    script = """
        import sys

        REFUSED = {"triton", "llvmlite", "sympy", "xdsl", "torch", "jaxtyping", "scipy", "sklearn", "sqlalchemy"}

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in REFUSED:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Refuse())
        import numpy as np
        import vkernels as vk
        from vkernels.runtime.threads import the_pool

        vk.set_threads(2)
        net = vk.load(sys.argv[1], trust=sys.argv[2], fallback="plain")
        for shape in [(6, 37), (4000, 300)]:
            x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
            out = np.full_like(x, np.nan)
            net.softmax(x, out)
            assert abs(out.sum(1) - 1).max() < 1e-5
        print(type(the_pool()).__name__, *sorted(REFUSED & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), net, secret], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "Pool\n"), done.stderr


def test_calls_are_ranges_of_profilers(net, secret, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(vendor_ranges, "_of_library", lambda kind: vendor_ranges.Marker(said.append, lambda: None))
    x = np.ones((6, 37), np.float32)
    with vk.profiler_ranges("nvtx"):
        vk.load(net, trust=secret).softmax(x, np.empty_like(x))
    assert said == ["softmax"]


@pytest.mark.parametrize("is_active", [False, True])
def test_traces_and_perf_name_the_code(net, secret, tmp_path, monkeypatch, is_active):
    """In calls of the author's kernels within `active()`, also its line."""
    monkeypatch.setattr(perf_map, "perf_map_file", lambda process: tmp_path / "perf.map")
    x = np.ones((6, 37), np.float32)
    bundle = vk.load(net, trust=secret)
    with tracing() as trace, perf_map.perf_map() as file, bundle.active() if is_active else nullcontext():
        for _ in range(2):
            (kernels.softmax if is_active else bundle.softmax)(x, np.empty_like(x))
    assert [span.about["kernel"] for span in trace.spans if span.kind == "load"] == ["softmax"]
    place = f" kernels.py:{kernels.softmax.function.__code__.co_firstlineno}" if is_active else ""
    names = [line.split(" ", 2)[2] for line in file.read_text().splitlines()]
    assert f"softmax_launch_0{place}" in names
    assert f"softmax_prepare{place}" in names
