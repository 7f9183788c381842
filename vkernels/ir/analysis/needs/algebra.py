"""Expressions of numbers and named symbols: cheap to build and to compare, and compiled to Python functions.

Sums and products are kept flat, with like terms and powers collected and numbers folded. `sympy.sympify` accepts an
expression, and printing one prints sympy's; so sympy, which is slow to import, is not needed to choose a plan.
`compiled` does what `sympy.lambdify` does, in a hundredth of the time: parts that several expressions share are
visited once and computed once.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from types import CodeType
from typing import Any, TypeAlias

Number: TypeAlias = int | float | Fraction
Function = Callable[..., Sequence[Any]]


class Expr:
    """A number, a symbol, a sum, a product, a power or a function of other expressions; immutable.

    `head`: `number`, `symbol`, `sum`, `product`, `power`, or the function's name. `args`: the value, the name, or the
    operands; of a power its base and its exponent, a number.
    """

    __slots__ = ("_hash", "args", "head")

    def __init__(self, head: str, *args: Any):
        self.head, self.args = head, args
        self._hash = hash((head, args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr):
            return self.head == "number" and bool(self.args[0] == other)
        return self._hash == other._hash and self.head == other.head and self.args == other.args

    @property
    def is_number(self) -> bool:
        return self.head == "number"

    @property
    def is_symbol(self) -> bool:
        return self.head == "symbol"

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The expressions that it consists of."""
        return () if self.head in ("number", "symbol") else self.args

    @property
    def symbols(self) -> set[str]:
        """The names of all symbols in it."""
        return names_in([self])

    def __add__(self, other: Expr | Number) -> Expr:
        return total((self, other))

    def __sub__(self, other: Expr | Number) -> Expr:
        return total((self, product((-1, other))))

    def __mul__(self, other: Expr | Number) -> Expr:
        return product((self, other))

    def __truediv__(self, other: Expr | Number) -> Expr:
        return product((self, _as_expr(other) ** -1))

    def __pow__(self, exponent: Number) -> Expr:
        if isinstance(exponent, int):
            if self.head == "number":
                value = self.args[0]
                return number((value if isinstance(value, float) else Fraction(value)) ** exponent)
            if self.head == "product":
                return product(factor**exponent for factor in self.args)
            if self.head == "power":
                base, inner = self.args
                return product((Expr("power", base, number(inner.args[0] * exponent)),))
        return product((Expr("power", self, number(exponent)),))

    def __neg__(self) -> Expr:
        return product((-1, self))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Number) -> Expr:
        return total((other, -self))

    def __rtruediv__(self, other: Number) -> Expr:
        return product((other, self**-1))

    def __repr__(self) -> str:
        return str(self._sympy_())

    def _sympy_(self) -> Any:
        """The equivalent sympy expression; `sympy.sympify` calls this."""
        import sympy

        found: dict[Expr, Any] = {}
        kinds = {"sum": sympy.Add, "product": sympy.Mul, "power": sympy.Pow}
        for each in in_order(self):
            if each.is_symbol:
                found[each] = sympy.Symbol(each.args[0], integer=True, nonnegative=True)
            elif each.is_number:
                value = each.args[0]
                is_float = isinstance(value, float)
                found[each] = sympy.Float(value) if is_float else sympy.Rational(value.numerator, value.denominator)
            else:
                kind = kinds.get(each.head, sympy.Function(each.head))
                found[each] = kind(*(found[operand] for operand in each.operands))
        return found[self]


def symbol(name: str) -> Expr:
    return Expr("symbol", name)


def number(value: Number) -> Expr:
    return Expr("number", int(value) if value == int(value) else value)


ZERO, ONE = number(0), number(1)
HALF = Fraction(1, 2)
"""The exponent of a root."""


def total(values: Iterable[Expr | Number]) -> Expr:
    """A sum: flat, without terms of 0, each term once with its coefficient."""
    constant: Number = 0
    terms: dict[Expr, Number] = {}
    for value in map(_as_expr, values):
        for each in value.args if value.head == "sum" else (value,):
            coefficient, rest = _coefficient(each)
            if rest is None:
                constant += coefficient
            else:
                terms[rest] = terms.get(rest, 0) + coefficient
    found = [
        rest if n == 1 else Expr("product", number(n), *(rest.args if rest.head == "product" else (rest,)))
        for rest, n in terms.items()
        if n != 0
    ]
    if constant != 0 or not found:
        found.insert(0, number(constant))
    return found[0] if len(found) == 1 else Expr("sum", *found)


def product(values: Iterable[Expr | Number]) -> Expr:
    """A product: flat, its numbers folded into one, each base once with its power; a number times a sum is a sum."""
    coefficient: Number = 1
    powers: dict[Expr, Number] = {}
    for value in map(_as_expr, values):
        for each in value.args if value.head == "product" else (value,):
            if each.head == "number":
                coefficient *= each.args[0]
            else:
                base, exponent = (each.args[0], each.args[1].args[0]) if each.head == "power" else (each, 1)
                powers[base] = powers.get(base, 0) + exponent
    if coefficient == 0:
        return ZERO
    factors = [base if n == 1 else Expr("power", base, number(n)) for base, n in powers.items() if n != 0]
    if not factors:
        return number(coefficient)
    if coefficient == 1:
        return factors[0] if len(factors) == 1 else Expr("product", *factors)
    if len(factors) == 1 and factors[0].head == "sum":
        return total(product((coefficient, term)) for term in factors[0].args)
    return Expr("product", number(coefficient), *factors)


def most(values: Iterable[Expr]) -> Expr:
    """The largest of some values, all of them at least 0."""
    return _folded("most", values, max)


def least(values: Iterable[Expr]) -> Expr:
    return _folded("least", values, min)


def either(values: Iterable[Expr]) -> Expr:
    """1 where any of some values, all 0 or 1, is 1."""
    listed = list(values)
    return ONE if ONE in listed else most(listed)


def pieces(whole: Expr, part: Expr) -> Expr:
    """How many parts cover a whole; a last one that is not full counts as one."""
    return ONE if whole == part else Expr("pieces", whole, part)


def fits(value: Expr, bound: Expr) -> Expr:
    """1 where a value is at least a bound, else 0."""
    return Expr("fits", value, bound)


def parts(expressions: Iterable[Expr]) -> Counter[Expr]:
    """All distinct subexpressions, and how often each occurs in the others or by itself."""
    uses: Counter[Expr] = Counter()
    todo = list(expressions)
    while todo:
        expression = todo.pop()
        uses[expression] += 1
        if uses[expression] == 1:
            todo += expression.operands
    return uses


def names_in(expressions: Iterable[Expr]) -> set[str]:
    """The names of all symbols in some expressions."""
    found: set[str] = set()
    seen: set[int] = set()
    todo = list(expressions)
    while todo:
        expression = todo.pop()
        if id(expression) not in seen:  # by identity: comparing equal expressions takes long
            seen.add(id(expression))
            if expression.head == "symbol":
                found.add(expression.args[0])
            elif expression.head != "number":
                todo += expression.args
    return found


def in_order(expression: Expr) -> list[Expr]:
    """An expression and its subexpressions, each once and after its own parts."""
    found: dict[Expr, None] = {}
    todo = [expression]
    while todo:
        missing = [operand for operand in todo[-1].operands if operand not in found]
        if missing:
            todo += missing
        else:
            found[todo.pop()] = None
    return list(found)


def _as_expr(value: Expr | Number) -> Expr:
    return value if isinstance(value, Expr) else number(value)


def _coefficient(term: Expr) -> tuple[Number, Expr | None]:
    """A term as a number times the rest, which is None for a number."""
    if term.head == "number":
        return term.args[0], None
    if term.head == "product" and term.args[0].head == "number":
        rest = term.args[1:]
        return term.args[0].args[0], rest[0] if len(rest) == 1 else Expr("product", *rest)
    return 1, term


def _folded(function: str, values: Iterable[Expr], fold: Any) -> Expr:
    distinct = list(dict.fromkeys(values))
    numbers = [value.args[0] for value in distinct if value.is_number]
    others = [value for value in distinct if not value.is_number]
    if numbers and not (function == "most" and fold(numbers) == 0 and others):
        others.insert(0, number(fold(numbers)))
    if not others:
        return ZERO
    return others[0] if len(others) == 1 else Expr(function, *others)


# Values of expressions, and expressions as Python functions.

_NUMBERS: Mapping[str, Any] = {
    "most": max, "least": min, "pieces": lambda whole, part: math.ceil(whole / part),
    "fits": lambda value, bound: int(value >= bound), "sqrt": math.sqrt,
}  # fmt: skip


def evaluated(values: Mapping[str, Any], expressions: Sequence[Expr]) -> list[Any]:
    """The values of expressions, given those of symbols by name: the same as of what is `compiled`, which takes longer
    than a few evaluations."""
    known: dict[int, Any] = {}

    def value_of(expression: Expr) -> Any:
        key = id(expression)
        if key not in known:
            known[key] = _value(expression, value_of, values)
        return known[key]

    return [value_of(expression) for expression in expressions]


def _value(expression: Expr, value_of: Callable[[Expr], Any], symbols: Mapping[str, Any]) -> Any:
    """The value of an expression by those of its operands, computed in the order in which `_written` writes it."""
    head, args = expression.head, expression.args
    if head == "symbol":
        return symbols[args[0]]
    if head == "number":
        (value,) = args
        return value if isinstance(value, int | float) else value.numerator / value.denominator
    if head == "sum":
        return reduce(operator.add, map(value_of, args))
    if head == "product":
        below = [part.args[0] for part in args if part.head == "power" and part.args[1] == -1]
        above = [value_of(part) for part in args if part.head != "power" or part.args[1] != -1]
        found = reduce(operator.mul, above) if above else 1
        return found / reduce(operator.mul, map(value_of, below)) if below else found
    if head == "power":
        base, exponent = args
        return math.sqrt(value_of(base)) if exponent == HALF else value_of(base) ** value_of(exponent)
    return _NUMBERS[head](*map(value_of, args))


def compiled(names: Sequence[str], expressions: Sequence[Expr]) -> CodeType:
    """A function `values` of the symbols with these names, in this order, that returns the expressions' values."""
    for expression in expressions:
        if not isinstance(expression, Expr):
            raise TypeError(f"needs have no {type(expression).__name__}: {expression}")
    known = {symbol(name): f"a{number}" for number, name in enumerate(names)}
    head, lines = f"def values({', '.join(known.values())}):", list[str]()
    texts = _texts(expressions, known, lines)
    return compile("\n    ".join((head, *lines, f"return [{', '.join(texts)}]")), "<needs>", "exec")


def of_numbers(code: CodeType) -> Function:
    """What `compiled` made, as a function of numbers."""
    return _function(code, _NUMBERS)


def of_arrays(code: CodeType) -> Function:
    """The same for NumPy arrays, which are broadcast, and numbers among them, which take far less time."""
    import numpy as np

    def mixed(of_numbers: Callable[..., Any], of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        def found(*values: Any) -> Any:
            return (of_arrays if any(type(value) is np.ndarray for value in values) else of_numbers)(*values)

        return found

    def of_all(of_numbers: Callable[..., Any], of_two: Callable[..., Any]) -> Callable[..., Any]:
        def found(*values: Any) -> Any:
            if len(values) == 2 and (type(values[0]) is np.ndarray or type(values[1]) is np.ndarray):
                return of_two(*values)
            arrays = [value for value in values if type(value) is np.ndarray]
            numbers = [value for value in values if type(value) is not np.ndarray]
            return reduce(of_two, [*arrays, of_numbers(numbers)] if numbers else arrays)

        return found

    functions = {
        "most": of_all(max, np.maximum), "least": of_all(min, np.minimum),
        "pieces": mixed(_NUMBERS["pieces"], lambda whole, part: np.ceil(whole / part)),
        "fits": mixed(_NUMBERS["fits"], lambda value, bound: np.where(value >= bound, 1, 0)),
        "sqrt": mixed(math.sqrt, np.sqrt),
    }  # fmt: skip
    return _function(code, functions)


def _function(code: CodeType, functions: Mapping[str, Any]) -> Function:
    space = dict(functions)
    exec(code, space)
    found: Function = space["values"]
    return found


def _texts(expressions: Sequence[Expr], names: dict[Expr, str], lines: list[str]) -> list[str]:
    """Each expression in Python; lines before them compute what occurs more than once."""
    uses = parts(expressions)

    def text(expression: Expr) -> str:
        if expression not in names:
            written = _written(expression, text)
            if expression.operands and uses[expression] > 1:
                lines.append(f"x{len(lines)} = {written}")
                written = f"x{len(lines) - 1}"
            names[expression] = written
        return names[expression]

    return [text(expression) for expression in expressions]


def _written(expression: Expr, text: Callable[[Expr], str]) -> str:
    """An expression in Python, in parentheses where that is needed."""
    head, args = expression.head, expression.args
    if head == "number":
        (value,) = args
        if isinstance(value, float):
            return repr(value)
        return f"({value.numerator} / {value.denominator})" if value.denominator != 1 else f"({value.numerator})"
    if head == "sum":
        return f"({' + '.join(map(text, args))})"
    if head == "product":
        below = [part for part in args if part.head == "power" and part.args[1] == -1]
        above = [text(part) for part in args if part not in below]
        if not below:
            return f"({' * '.join(above)})"
        return f"({' * '.join(above) or '1'} / ({' * '.join(text(part.args[0]) for part in below)}))"
    if head == "power":
        base, exponent = args
        return f"sqrt({text(base)})" if exponent == HALF else f"({text(base)} ** {text(exponent)})"
    return f"{head}({', '.join(map(text, args))})"
