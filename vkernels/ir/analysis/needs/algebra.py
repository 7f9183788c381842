"""Expressions of numbers and named symbols: cheap to build and to compare, and turned into sympy's on demand.

Sums and products are kept flat, with like terms and powers collected and numbers folded. `sympy.sympify` takes an
expression, and printing one prints sympy's; so sympy, which is slow to import, is not needed to choose a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = int | float | Fraction


class Expr:
    """A number, a symbol, a sum, a product, a power or a function of other expressions; never changed.

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
        """The expressions that it is made of."""
        return () if self.head in ("number", "symbol") else self.args

    @property
    def symbols(self) -> set[str]:
        """The names of all symbols in it."""
        return {each.args[0] for each in parts([self]) if each.is_symbol}

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

    def __radd__(self, other: Number) -> Expr:
        return total((other, self))

    def __rsub__(self, other: Number) -> Expr:
        return total((other, -self))

    def __rmul__(self, other: Number) -> Expr:
        return product((other, self))

    def __rtruediv__(self, other: Number) -> Expr:
        return product((other, self**-1))

    def __repr__(self) -> str:
        return str(self._sympy_())

    def _sympy_(self) -> Any:
        """The same as sympy's; `sympy.sympify` calls this."""
        import sympy

        found: dict[Expr, Any] = {}
        kinds = {"sum": sympy.Add, "product": sympy.Mul, "power": sympy.Pow}
        for each in in_order(self):
            inner = [found[operand] for operand in each.operands]
            if each.is_symbol:
                found[each] = sympy.Symbol(each.args[0], integer=True, nonnegative=True)
            elif each.is_number:
                value = each.args[0]
                exact = sympy.Rational(value.numerator, value.denominator) if not isinstance(value, float) else None
                found[each] = sympy.Float(value) if exact is None else exact
            else:
                found[each] = kinds.get(each.head, sympy.Function(each.head))(*inner)
        return found[self]


def symbol(name: str) -> Expr:
    return Expr("symbol", name)


def number(value: Number) -> Expr:
    if value == int(value):
        value = int(value)
    return Expr("number", value)


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
    found = [rest if n == 1 else _scaled(n, rest) for rest, n in terms.items() if n != 0]
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
    """The largest of some values, none of them below 0."""
    return _folded("most", values, max)


def least(values: Iterable[Expr]) -> Expr:
    return _folded("least", values, min)


def either(values: Iterable[Expr]) -> Expr:
    """1 where any of some values, all 0 or 1, is 1."""
    listed = list(values)
    return ONE if ONE in listed else most(listed)


def pieces(whole: Expr, part: Expr) -> Expr:
    """The parts that a whole takes, the last one counted in full."""
    return ONE if whole == part else Expr("pieces", whole, part)


def fits(value: Expr, bound: Expr) -> Expr:
    """1 where a value is at least a bound, else 0."""
    return Expr("fits", value, bound)


def parts(expressions: Iterable[Expr]) -> Counter[Expr]:
    """All that some expressions are made of, each once, and how often it occurs in the others and by itself."""
    uses: Counter[Expr] = Counter()
    todo = list(expressions)
    while todo:
        expression = todo.pop()
        uses[expression] += 1
        if uses[expression] == 1:
            todo += expression.operands
    return uses


def in_order(expression: Expr) -> list[Expr]:
    """An expression and all that it is made of, each once and after its own parts."""
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
    """A term as a number times the rest, None where there is no more."""
    if term.head == "number":
        return term.args[0], None
    if term.head == "product" and term.args[0].head == "number":
        rest = term.args[1:]
        return term.args[0].args[0], rest[0] if len(rest) == 1 else Expr("product", *rest)
    return 1, term


def _scaled(coefficient: Number, rest: Expr) -> Expr:
    factors = rest.args if rest.head == "product" else (rest,)
    return Expr("product", number(coefficient), *factors)


def _folded(function: str, values: Iterable[Expr], fold: Any) -> Expr:
    distinct = list(dict.fromkeys(values))
    numbers = [value.args[0] for value in distinct if value.is_number]
    others = [value for value in distinct if not value.is_number]
    if numbers and not (function == "most" and fold(numbers) == 0 and others):
        others.insert(0, number(fold(numbers)))
    if not others:
        return ZERO
    return others[0] if len(others) == 1 else Expr(function, *others)
