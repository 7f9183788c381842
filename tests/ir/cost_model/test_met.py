"""What a kernel reads twice within a trip of a loop is still in the cache if the trip's work fits."""

from __future__ import annotations

import numpy as np

from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import batch_of
from vkernels.ir.planning.space import read_space
from vkernels.library.norms import rms_norm_gradient

from ..planning.kernels import kernel_of
from .test_cpu import WIDE

ROWS, COLUMNS, PARTS = 512, 2048, 4


def test_rows_that_are_read_twice_in_each_trip_come_once_from_beyond_the_cache():
    sizes = {"M": ROWS, "N": COLUMNS, "P": PARTS, "each": ROWS // PARTS}
    tensors = tuple((name, "float32") for name in ("grad", "x", "weight", "out", "of_weight"))
    built = rms_norm_gradient.build(Signature(tensors, (("eps", "f64"), ("each", "i64")), ()))
    space = read_space(kernel_of(built), sizes, WIDE)
    traffic = CacheTraffic(batch_of(space, Plan({"p": 1}, {"j": 128}, lanes="j", order=("p",))), on_chip_counts=True)
    rows = 2 * 4 * ROWS * COLUMNS
    fits, does_not = (float(np.max(traffic.missed(capacity, 64)[0])) for capacity in (64 << 10, 4 << 10))
    assert fits < 1.2 * rows
    assert does_not > 1.8 * rows
