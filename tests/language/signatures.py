"""The signature that a test takes where it does not matter."""

from __future__ import annotations

import vkernels as vk

_PREFERRED = ("float32", "int64", "bool", "f64")


def plain_signature(kernel: vk.Kernel, **given):
    """float32, int64 or bool for tensors, whichever the annotation allows; float for scalars; the rest as given."""
    plain = {
        p.name: next((d for d in _PREFERRED if d in p.dtypes), p.dtypes[0])
        for p in kernel.parameters
        if p.kind != "constant"
    }
    return kernel.signature(**{**plain, **given})
