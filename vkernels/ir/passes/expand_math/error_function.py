"""erf: x + x P(x²) up to 1; beyond, 1 - exp(Q(x)), where Q approximates the logarithm of erfc."""

from __future__ import annotations

from .exponential import reduced
from .formula import polynomial, power_of_two
from .values import Float, select

CENTRE = {True: 2.5, False: 3.5}
END = {True: 4.0, False: 6.0}
"""Where Q is centred, and where erf has become 1, by `single`."""


def erf(x: Float) -> Float:
    a = abs(x)
    near = x.fma(polynomial(x * x, "erf"), x)
    shifter, r = reduced(polynomial(a.at_most(END[x.single]) - CENTRE[x.single], "erfc"))
    complement = polynomial(r, "exp").fma(r, 1.0).fma(r, 1.0) * power_of_two(shifter)
    return select(a < 1.0, near, (1.0 - complement).sign_of(x))
