"""The hint that a tile will be read soon."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from .access import ReadOp


@irdl_op_definition
class PrefetchOp(ReadOp):
    """Ask for the memory that a `vk.gather` of the same form would read; no place need be in range.

    The result is not defined, so nothing may use it: it has the type of what is gathered later.
    """

    name = "vk.prefetch"
    GATHERS: ClassVar[bool] = True

    def verify_(self) -> None:
        super().verify_()
        if any(True for _ in self.result.uses):
            raise VerifyException("nothing can use the result of a vk.prefetch: it is not defined")
