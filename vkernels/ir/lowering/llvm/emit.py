"""MLIR text, built line by line: names, regions, and no pure operation twice where one is visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto

Number = int | str
"""An i64: known while compiling, or the name of an SSA value."""

MOST_IN_TEXT = (1 << 31) - 1
"""The largest index that `llvm.getelementptr` holds itself."""
NOTHING = "vk_nothing"
"""The name of constant zeros."""
NOTHING_BYTES = 64
"""Bytes of them: inactive elements of a row are read there, as many as a chunk has or as fit."""


class ToBf16(Enum):
    """How a processor rounds f32 to bf16, to nearest: by operations on bits; by an instruction that makes 0 of what is
    below 2^-126; or by an exact one."""

    BY_BITS = auto()
    FLUSHED = auto()
    EXACT = auto()


class LlvmEmitter:
    """The body of one function. A pure operation whose text was emitted before, in a region that is still
    open, is not emitted again; constants go to the function's entry. `to_bf16`: how the processor rounds.
    """

    def __init__(self, to_bf16: ToBf16 = ToBf16.BY_BITS) -> None:
        self.to_bf16 = to_bf16
        self._constants: list[str] = []
        self._lines: list[str] = []
        self._scopes: list[dict[str, str]] = [{}]
        self._constant_names: dict[str, str] = {}
        self._known: dict[str, int] = {}
        self._bf16_bits: dict[str, str] = {}
        self._count = 0

    def text(self) -> str:
        """Every line emitted so far, constants first."""
        return "\n".join((*self._constants, *self._lines))

    def name(self) -> str:
        """A new SSA name."""
        self._count += 1
        return f"%{self._count}"

    def line(self, text: str) -> None:
        self._lines.append(text)

    def operation(self, text: str) -> str:
        """Emit an operation with one result and return the result's name."""
        name = self.name()
        self._lines.append(f"{name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """Like `operation`, for one without side effects that reads no memory."""
        for scope in reversed(self._scopes):
            if (name := scope.get(text)) is not None:
                return name
        name = self._scopes[-1][text] = self.operation(text)
        return name

    def constant(self, value: str, type_: str) -> str:
        """A constant of any type; `value` as MLIR writes it (`4`, `0x7F800000`, `dense<0>`)."""
        return self._at_entry(f"arith.constant {value}" if type_ == "i1" else f"arith.constant {value} : {type_}")

    def nothing(self) -> str:
        """The address of zeros, `NOTHING_BYTES` long; a module whose text uses it defines them."""
        return self._at_entry(f"llvm.mlir.addressof @{NOTHING} : !llvm.ptr")

    def filled(self, text: str, element: str, width: int) -> str:
        """A constant in every lane."""
        return self.constant(text if width == 1 else f"dense<{text}>", vector(element, width))

    def _at_entry(self, text: str) -> str:
        if (name := self._constant_names.get(text)) is None:
            name = self._constant_names[text] = self.name()
            self._constants.append(f"{name} = {text}")
        return name

    @contextmanager
    def region(self) -> Iterator[None]:
        """Emit into a nested region; its values are not visible after it."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    # i64 arithmetic, folded where it is known

    def number(self, value: Number) -> str:
        """The name of an i64 value."""
        if isinstance(value, str):
            return value
        name = self.constant(str(value), "i64")
        self._known[name] = value
        return name

    def known(self, name: Number) -> Number:
        """The number that a name is known to be, or else the name."""
        return self._known.get(name, name) if isinstance(name, str) else name

    def add(self, a: Number, b: Number) -> Number:
        a, b = self.known(a), self.known(b)
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.pure(f"arith.addi {self.number(a)}, {self.number(b)} : i64")

    def multiply(self, a: Number, b: Number) -> Number:
        a, b = self.known(a), self.known(b)
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.pure(f"arith.muli {self.number(a)}, {self.number(b)} : i64")

    def integer(self, operation: str, a: Number, b: Number) -> str:
        """An i64 operation of upstream arith (`divui`, `minsi`, …) that is not folded."""
        return self.pure(f"arith.{operation} {self.number(a)}, {self.number(b)} : i64")

    def offset(self, pointer: str, elements: Number, element: str, lanes: int = 1) -> str:
        """A pointer moved by elements of a type; `lanes` pointers where `elements` names a vector of i64."""
        elements = self.known(elements)
        if elements == 0:
            return pointer
        if isinstance(elements, int) and abs(elements) <= MOST_IN_TEXT:
            return self.pure(f"llvm.getelementptr {pointer}[{elements}] : (!llvm.ptr) -> !llvm.ptr, {element}")
        if isinstance(elements, int):
            elements, lanes = self.number(elements), 1
        types = f"(!llvm.ptr, {vector('i64', lanes)}) -> {vector('!llvm.ptr', lanes)}"
        return self.pure(f"llvm.getelementptr {pointer}[{elements}] : {types}, {element}")

    # Vectors

    def cast(self, name: str, value: str, source: str, result: str, width: int) -> str:
        """One upstream conversion between element types; the value itself where they are the same."""
        if source == result:
            return value
        return self.pure(f"{name} {value} : {vector(source, width)} to {vector(result, width)}")

    def select(self, condition: str, a: str, b: str, element: str, width: int, conditions: int | None = None) -> str:
        """`a` where the condition holds, else `b`; `conditions` is 1 where one scalar decides for all lanes."""
        type_ = vector(element, width)
        types = type_ if (conditions or width) == 1 else f"{vector('i1', width)}, {type_}"
        return self.pure(f"arith.select {condition}, {a}, {b} : {types}")

    def bits_are(self, value: str, bits: str) -> None:
        """Note the i16 that a scalar f32 was extended from, as a bf16."""
        self._bf16_bits[value] = bits

    def splat(self, value: str, element: str, width: int) -> str:
        """A scalar in every lane of a vector; itself where there is one lane."""
        if width == 1:
            return value
        if element == "f32" and value in self._bf16_bits:
            return self._splat_bf16(self._bf16_bits[value], width)
        type_ = vector(element, width)
        poison = self.pure(f"llvm.mlir.poison : {type_}")
        zero = self.constant("0", "i32")
        first = self.pure(f"llvm.insertelement {value}, {poison}[{zero} : i32] : {type_}")
        return self.shuffle(first, poison, [0] * width, element, width)

    def _splat_bf16(self, bits: str, width: int) -> str:
        """A bf16 as f32 in every lane: its bits in both halves of each word, the lower half cleared. A load repeats 16
        bits as it repeats 32, where a scalar that is extended first goes through two more registers."""
        words = vector("i32", width)
        both = self.cast("llvm.bitcast", self.splat(bits, "i16", 2 * width), vector("i16", 2 * width), words, 1)
        high = self.pure(f"arith.andi {both}, {self.filled('-65536', 'i32', width)} : {words}")
        return self.cast("llvm.bitcast", high, words, vector("f32", width), 1)

    def gathered(self, values: Sequence[str], element: str) -> str:
        """Scalars as the lanes of a vector."""
        type_ = vector(element, len(values))
        result = self.pure(f"llvm.mlir.poison : {type_}")
        for lane, value in enumerate(values):
            number = self.constant(str(lane), "i32")
            result = self.pure(f"llvm.insertelement {value}, {result}[{number} : i32] : {type_}")
        return result

    def shuffle(self, a: str, b: str, lanes: Sequence[int], element: str, width: int) -> str:
        """The lanes of `a` and then `b`, each `width` wide, that `lanes` numbers; -1 where any value will do."""
        return self.pure(f"llvm.shufflevector {a}, {b} [{', '.join(map(str, lanes))}] : {vector(element, width)}")

    def extract(self, value: str, lane: int, element: str, width: int) -> str:
        """One lane of a vector."""
        if width == 1:
            return value
        number = self.constant(str(lane), "i32")
        return self.pure(f"llvm.extractelement {value}[{number} : i32] : {vector(element, width)}")

    def widened(self, value: str, element: str, width: int, lanes: int) -> str:
        """The value in the first lanes of a vector of `lanes`."""
        if width == lanes:
            return value
        if width == 1:
            return self.splat(value, element, lanes)
        return self.shuffle(value, value, [*range(width), *([-1] * (lanes - width))], element, width)

    def narrowed(self, value: str, element: str, lanes: int, width: int) -> str:
        """The first `width` lanes of a vector of `lanes`; a scalar where that is one."""
        if width == 1:
            return self.extract(value, 0, element, lanes)
        return value if width == lanes else self.shuffle(value, value, range(width), element, lanes)

    def iota(self, start: int, width: int, element: str) -> str:
        """start, start + 1, …: one number a lane."""
        if width == 1:
            return self.constant(str(start), element)
        return self.constant(f"dense<{list(range(start, start + width))}>", vector(element, width))


def vector(element: str, width: int) -> str:
    """The MLIR type of `width` elements side by side; the element's own for one."""
    return element if width == 1 else f"vector<{width}x{element}>"
