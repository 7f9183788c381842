"""Programs and models whose kernels all run from a bundle, and how it is found out which kernels they call."""

import platform
import threading

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from tests.bundles import kernels
from vkernels.bundles.build import bundled, qualified
from vkernels.bundles.build_request import BuildOptions, BuildRequest
from vkernels.bundles.record import recorded_calls
from vkernels.compiler.default_session import default_session


@pytest.fixture(scope="module")
def frozen(net, secret):
    return vk.load(net, trust=secret)


def called(kernel, *given):
    x, out = np.linspace(-3, 3, 6 * 37, dtype=np.float32).reshape(6, 37), np.full((6, 37), np.nan, np.float32)
    kernel(x, *given, out)
    return out.tobytes()


def test_kernels_run_the_bundle_within_and_compile_after(frozen):
    before = called(kernels.softmax)
    with frozen.active():
        assert called(kernels.softmax) == before
        found = []
        thread = threading.Thread(target=lambda: found.append(called(kernels.softmax)))
        thread.start()
        thread.join()
        with pytest.raises(vk.NotInBundleError, match="no code for M=2, N=2"):
            kernels.softmax(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    assert found == [before]
    out = np.full((2, 2), np.nan, np.float32)
    kernels.softmax(np.ones((2, 2), np.float32), out)
    assert (out == 0.5).all()


def test_library_functions_are_frozen_too(frozen):
    from vkernels.library import softmax

    x = np.ones((4, 8), np.float32)
    result = softmax(x)
    with frozen.active(), pytest.raises(vk.NotInBundleError, match="has no kernel"):
        softmax(x)
    assert softmax(x).tobytes() == result.tobytes()


def test_a_kernel_whose_text_has_changed_is_refused(frozen):
    @vk.kernel
    def scale(x: Float[vk.Tensor, "M N"], factor: vk.Scalar, out: Float[vk.Tensor, "M N"]):
        i, j = vk.tile("M"), vk.tile("N")
        out[i, j] = x[i, j] / factor

    scale.function.__qualname__ = "scale"
    with frozen.active(), pytest.raises(vk.NotInBundleError, match="its text has changed"):
        called(scale, 2.0)


def test_calls_are_recorded_once_for_each_kind():
    x, out = np.ones((6, 37), np.float32), np.empty((6, 37), np.float32)

    def run():
        for _ in range(2):
            kernels.scale(x, 2.0, out)
            kernels.scale(x, 2.0, x)
            kernels.scale(x[:3], 2.0, out[:3])
            kernels.softmax(x, out)

    scale, softmax = recorded_calls(run).requests
    assert scale.kernel is kernels.scale
    assert scale.reference == "tests.bundles.kernels:scale"
    assert [dict(shape) for shape in scale.shapes] == [{"M": 6, "N": 37}] * 2 + [{"M": 3, "N": 37}]
    assert scale.same == ((), (("x", "out"),), ())
    assert softmax.shapes == ({"M": 6, "N": 37},)


def test_a_thread_pool_of_another_version_is_told(net, secret, monkeypatch):
    monkeypatch.setattr("vkernels.bundles.load.can_link", lambda text: False)
    monkeypatch.setattr("vkernels.bundles.load.FUTEX", {platform.machine(): 0})
    with pytest.warns(vk.KernelWarning, match="whose thread pool is not this one's"):
        vk.load(net, trust=secret)


def test_kernels_of_one_name_are_told_apart_by_their_modules(monkeypatch):
    signature = kernels.scale.signature(x="float32", factor=float, out="float32")
    requests = [BuildRequest(kernels.scale, signature, (), reference=f"{where}:scale") for where in ("one", "a.two")]
    manifest, _ = bundled(requests, BuildOptions(plain=False), default_session())
    assert [kernel.name for kernel in manifest.kernels] == ["scale", "two.scale"]
    assert qualified("folder/models.py:net") == "models.net"
