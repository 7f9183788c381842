"""What versions of an access are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ...dialect import AccessOp
from .scalars import Scalars, Truth


@dataclass(frozen=True, eq=False)
class Candidate(ABC):
    """An access that may have versions."""

    op: AccessOp

    @property
    def tiles(self) -> Sequence[SSAValue]:
        """The index tiles that versions do without."""
        return ()

    @property
    @abstractmethod
    def scalars(self) -> Sequence[SSAValue]:
        """The scalars that versions are computed from."""

    @abstractmethod
    def version(self, scalars: Scalars) -> Version | None:
        """The versions, whose arithmetic is emitted; None if there are none."""


@dataclass(frozen=True, eq=False)
class Version(ABC):
    """How an access is made in a chunk: in a `straight` way if that holds, else in a `split` way if that holds; None if
    there is no such way. The methods replace a copy of the access."""

    op: AccessOp
    straight: Truth
    split: Truth | None

    @abstractmethod
    def make_straight(self, op: AccessOp, scalars: Scalars) -> None: ...

    def make_split(self, op: AccessOp, scalars: Scalars) -> None:
        """Only called where there is such a way."""
        raise NotImplementedError


def replace_access(op: AccessOp, value: SSAValue | None) -> None:
    """Erase an access, after replacing what it loads."""
    if value is not None:
        value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(value)
    Rewriter.erase_op(op)
