"""A case as data: a function, what its arguments are and how they lie in memory, its options, and what is wrong on
purpose. The same case has the same bits anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FLOATS = ("float64", "float32", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Layout:
    """How an array lies in memory. `order`: dimensions from the fastest on. `steps`: of each dimension, 0 for one
    element seen again and again, negative for backwards. `pad`: elements after the fastest dimension. `shift`: bytes
    from an address that 64 divides. `edge`: what follows is a page that must not be touched."""

    order: tuple[int, ...]
    steps: tuple[int, ...]
    pad: int = 0
    shift: int = 0
    edge: bool = False


@dataclass(frozen=True)
class Floats:
    """Numbers of the case's kind of values; `finite`, `positive` and `small` (no sums that overflow) restrict them."""

    finite: bool = False
    positive: bool = False
    small: bool = False


@dataclass(frozen=True)
class Whole:
    """Integers from `low` up to, not including, `high`; of the whole type where they are None."""

    low: int | None = None
    high: int | None = None
    special: int | None = None


@dataclass(frozen=True)
class Starts:
    """Integers that do not fall, from 0 to `most`; `full`: the first is 0, the last `most`."""

    most: int
    full: bool = False


Content = Floats | Whole | Starts


@dataclass(frozen=True)
class Argument:
    """`role`: in, out (poisoned before) or inout (read and written)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    content: Content = Floats()
    role: str = "in"


@dataclass(frozen=True)
class Case:
    """`library`: torch or numpy. `values`: the kind of floats. `seed`: of the data. `fault`: what is wrong on purpose.
    `alias`: the argument whose memory `out` is, if any, `overlap` elements further on. `threads`: that the call may
    use."""

    function: str
    library: str
    arguments: tuple[Argument, ...]
    options: tuple[tuple[str, Any], ...] = ()
    values: str = "normal"
    seed: int = 0
    fault: str = ""
    alias: str = ""
    overlap: int = 0
    threads: int = 1

    def __str__(self) -> str:
        arrays = ", ".join(
            f"{a.name}: {a.role} {a.dtype}{list(a.shape)} order {a.layout.order} steps {a.layout.steps}"
            f" pad {a.layout.pad} shift {a.layout.shift}"
            + (" at a page's edge" if a.layout.edge else "")
            + ("" if isinstance(a.content, Floats) else f" {a.content}")
            for a in self.arguments
        )
        options = ", ".join(f"{name}={value!r}" for name, value in self.options)
        extra = f", {self.threads} threads" if self.threads > 1 else ""
        extra += (f", fault {self.fault}" if self.fault else "") + (
            f", out is {self.alias} + {self.overlap}" if self.alias else ""
        )
        return f"{self.function}({arrays}; {options}) of {self.library}, {self.values} values, seed {self.seed}{extra}"


@dataclass(frozen=True)
class Outcome:
    """`kind`: right, refused (as it should be), wrong, spilled (other memory than the results' was written), refused
    although right, accepted although wrong, raised (no vk.Error), untested (the tester's own fault); a parent adds
    crashed and hung. `worst`: the largest error in units of its bound. `loose`: the share of floats left open."""

    kind: str
    worst: float = 0.0
    message: str = ""
    loose: float = 0.0

    @property
    def failed(self) -> bool:
        return self.kind not in ("right", "refused")
