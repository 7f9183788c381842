"""Load a bundle for calls: its kernels as functions that compile nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from vkernels.compiler.protocols import KernelLike
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import BundleError, KernelWarning, NotInBundleError, OptionError, warn_caller
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.native_functions import can_link, provide_object
from vkernels.runtime.pool_ir import pool_ir
from vkernels.runtime.pool_wait_ir import FUTEX
from vkernels.runtime.shared_launchers import use_launchers
from vkernels.targets.instruction_sets import lacking

from .bundle import Bundle, open_bundle
from .frozen_gpu import GpuLoader
from .frozen_kernel import FrozenKernel
from .frozen_launcher import FrozenLauncher
from .identify import record_of
from .layered_launcher import LayeredLauncher
from .loaded_code import LoadedCode, load_code
from .manifest import Code, Kernel, Variant
from .match import check_fallback
from .source import Source, absolute, digest_of
from .trust import Trust


class FrozenBundle:
    """The kernels of a bundle by name, as attributes: `net.softmax(x, out)`. `bundle`: the file that they are from.

    Code is read from memory and linked at the first call that needs it. It is pickled as its path, and loaded again
    where it is unpickled, trusted as here; copies are the bundle itself.
    """

    _is_frozen = True

    def __init__(self, bundle: Bundle, fallback: str = "error", trust: Trust = None):
        check_fallback(fallback)
        self.bundle, self._fallback = bundle, fallback
        self._source = Source(bundle.path.absolute(), absolute(trust), self._is_frozen, fallback)
        self._loaded: dict[str, LoadedCode] = {}
        self._gpu = GpuLoader(bundle)
        self._kernels = {record.name: FrozenKernel(record) for record in bundle.manifest.kernels}
        for kernel in self._kernels.values():
            kernel.use(self._launcher(kernel, kernel.record), self)
        _provide_support(bundle)

    def __repr__(self) -> str:
        return f"<bundle {self.bundle.path.name}: {', '.join(self._kernels)}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return load_again, (self._source, digest_of(self.bundle))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def __iter__(self) -> Iterator[str]:
        """The names of its kernels."""
        return iter(self._kernels)

    def __getitem__(self, name: str) -> FrozenKernel:
        """The kernel of a name. Raises `NotInBundleError`."""
        if name not in self._kernels:
            hint = did_you_mean(name, [*self._kernels]) if self._kernels else "it has none"
            raise NotInBundleError(f"{self.bundle.path.name} has no kernel {name!r}; {hint}")
        return self._kernels[name]

    def __getattr__(self, name: str) -> FrozenKernel:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except NotInBundleError as error:
            raise AttributeError(str(error)) from None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within, calls of all kernels in this process, also those in library functions and torch modules, run the
        bundle's code, and compile nothing.

        A kernel is found by its name and the text of its function. Raises `NotInBundleError` for calls that the bundle
        has no code for, and for kernels that it does not have.
        """
        with use_launchers(self._launcher_of):
            yield

    def _launcher_of(self, kernel: KernelLike) -> Launcher:
        return self._launcher(kernel, record_of(self.bundle.manifest, kernel, self.bundle.path.name))

    def _launcher(self, kernel: KernelLike, record: Kernel) -> FrozenLauncher:
        return FrozenLauncher(kernel, record, _runnable, self._read, self._fallback, self._gpu)

    def _read(self, code: Code) -> LoadedCode:
        key = f"{code.binaries} {code.plan}"
        return self._loaded.get(key) or self._loaded.setdefault(key, load_code(self.bundle, code))


class LayeredBundle(FrozenBundle):
    """A bundle that is the lowest layer of plans: within `active()`, calls that a plan was tuned for, and calls that
    the bundle has no code of its own for, are compiled."""

    _is_frozen = False

    def _launcher_of(self, kernel: KernelLike) -> Launcher:
        try:
            record = record_of(self.bundle.manifest, kernel, self.bundle.path.name)
        except NotInBundleError:
            return Launcher(kernel)
        return LayeredLauncher(kernel, record, _runnable, self._read, self._fallback, self._gpu)


def load(
    path: str | os.PathLike[str], *, frozen: bool = True, trust: Trust = None, fallback: str = "error"
) -> FrozenBundle:
    """Load a bundle. Its kernels are called as those that it was built from, and nothing is planned or compiled.

    `frozen=False`: within `active()`, tuned plans win over the bundle's, and what it lacks is compiled as without a
    bundle; that needs the compilers.

    `trust`: files of keys whose signatures are trusted (default: those in the user's folder of known keys), or
    `"unsigned"` for bundles that nobody known has signed. `fallback`: what a frozen call does that the bundle has no
    code of its own for: `"error"`, or run the bundle's `"plain"` code. Raises `BundleError` for a bundle that is
    damaged or of another format, `UntrustedError` for one that is not trusted, `OptionError` for another `fallback`;
    calls raise `NotInBundleError`.
    """
    if frozen:
        return FrozenBundle(open_bundle(path, trust), fallback, trust)
    if fallback != "error":
        raise OptionError(f"vk.load: fallback={fallback!r} is for frozen bundles: what another lacks is compiled")
    return LayeredBundle(open_bundle(path, trust), trust=trust)


def load_again(source: Source, digest: str) -> FrozenBundle:
    """Load a bundle that was pickled. Raises as `load` does, and `BundleError` if its file has changed since."""
    found = load(source.path, frozen=source.frozen, trust=source.trust, fallback=source.fallback)
    if digest_of(found.bundle) != digest:
        raise BundleError(f"{source.path}: not the bundle that was pickled: the file has changed since")
    return found


def _provide_support(bundle: Bundle) -> None:
    """Let the runtime take its own native code from a bundle. Warns where it is of another version and no compiler is
    there: the runtime has slower ways then."""
    machine = platform.machine()
    for support in bundle.manifest.support:
        if support.machine == machine:
            provide_object(support.key, partial(bundle.read, support.object))
    if sys.platform == "linux" and machine in FUTEX and not can_link(pool_ir(machine)):
        built = bundle.manifest.provenance.vkernels
        warn_caller(
            KernelWarning(
                f"{bundle.path.name} was built by another version of vkernels ({built}), whose thread pool is not this "
                "one's: calls on several cores take some 0.1 ms longer. Build it again with the version that loads it"
            )
        )


def _runnable(variant: Variant) -> list[Code]:
    """The code of a variant that this machine can run, that with the most features first."""
    found = [code for code in variant.codes if not lacking(code.machine, code.features)]
    return sorted(found, key=lambda code: -len(code.features))
