"""Bundles and their kernels are copied, and cross processes, as their file."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import msgspec
import numpy as np
import pytest

import vkernels as vk
from vkernels.bundles.bundle import write_bundle
from vkernels.bundles.signing import read_key

X = np.linspace(-2, 2, 6 * 37, dtype=np.float32).reshape(6, 37)


def softmax_of(kernel) -> bytes:
    out = np.full_like(X, np.nan)
    kernel(X, out)
    return out.tobytes()


def test_copies_are_the_bundle_and_its_kernels_themselves(net, secret):
    bundle = vk.load(net, trust=secret)
    for thing in (bundle, bundle.softmax):
        assert copy.copy(thing) is thing
        assert copy.deepcopy([thing])[0] is thing


def test_what_was_pickled_is_loaded_as_before_from_any_folder(net, secret, tmp_path, monkeypatch):
    monkeypatch.chdir(net.parent)
    strict, lenient = vk.load(net.name, trust=secret), vk.load(net, trust=[secret], fallback="plain")
    for given in (strict, lenient):
        data = pickle.dumps(given)
        monkeypatch.chdir(tmp_path)
        again = pickle.loads(data)
        assert (list(again), type(again)) == (list(given), type(given))
        kernel = pickle.loads(pickle.dumps(given.softmax))
        assert softmax_of(again.softmax) == softmax_of(kernel) == softmax_of(given.softmax)
        x = np.ones((3, 5), np.float32)
        if given is lenient:
            again.softmax(x, np.empty_like(x))
        else:
            with pytest.raises(vk.NotInBundleError):
                again.softmax(x, np.empty_like(x))
    layered = vk.load(net, frozen=False, trust=secret)
    assert type(pickle.loads(pickle.dumps(layered))) is type(layered)


def test_another_process_runs_a_kernel_of_a_bundle(net, secret):
    kernel = vk.load(net, trust=secret).softmax
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(softmax_of, (kernel,)) == softmax_of(kernel)


def test_a_bundle_that_changed_or_is_not_trusted_is_refused(built, secret, tmp_path):
    file, (manifest, files) = tmp_path / "net.vkb", built
    write_bundle(file, manifest, files, [read_key(secret)])
    data = pickle.dumps(vk.load(file, trust=secret))
    write_bundle(file, manifest, files)
    with pytest.raises(vk.UntrustedError):
        pickle.loads(data)
    kept = tuple(kernel for kernel in manifest.kernels if kernel.name == "softmax")
    write_bundle(file, msgspec.structs.replace(manifest, kernels=kept), files, [read_key(secret)])
    with pytest.raises(vk.BundleError, match="not the bundle that was pickled"):
        pickle.loads(data)
