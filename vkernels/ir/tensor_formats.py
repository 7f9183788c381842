"""Which formats of few bits a GPU's tensor cores take as they are."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from .dialect import DecodeOp, element_of
from .dialect.scaled import FLOAT8
from .limits import Limits

SCALED_FORMATS = ("mxfp8", "mxfp4", "nvfp4")
"""Block-scaled formats, as `Limits.tensor_multiply_adds` names those that tensor cores multiply as they are."""


@dataclass(frozen=True)
class TensorFormats:
    """`scaled`: block-scaled formats; others become bf16, exactly, where `bfloat16`. `float8`: f8 is converted by
    instructions of the device, or else by operations on its bits. `adds_float8`: tensor cores add products of f8 in
    fewer bits than f32 has, so that such sums are added to others by plain units (wgmma of sm_90)."""

    scaled: tuple[str, ...] = ()
    bfloat16: bool = True
    float8: bool = True
    adds_float8: bool = False

    @staticmethod
    def of(limits: Limits) -> TensorFormats:
        """The formats that a GPU of these limits takes."""
        rates = limits.tensor_multiply_adds
        scaled = tuple(name for name in SCALED_FORMATS if rates.get(name))
        adds = limits.dots_from_shared and not limits.tensor_memory
        return TensorFormats(scaled, bool(rates.get("bfloat16")), bool(rates.get("float8")), adds)


def has_few_bits(kernel: Operation) -> bool:
    """Whether a kernel has numbers of such formats, so that what is made of it depends on what a GPU takes."""
    return any(
        isinstance(op, DecodeOp) or any(isinstance(element_of(value), FLOAT8) for value in (*op.operands, *op.results))
        for op in kernel.walk()
    )


NO_FORMATS = TensorFormats()
"""Those of a GPU of which nothing is known: it converts f8 and multiplies bf16."""
