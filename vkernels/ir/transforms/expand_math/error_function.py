"""erf: x + x P(x²) up to 1; beyond, 1 - exp(Q(x - 1)), where Q approximates the logarithm of erfc.

Q is centred where erfc is largest: there the errors of the exponent weigh most.
"""

from __future__ import annotations

from .exponential import reduced
from .formula import polynomial, power_of_two
from .values import Float, select

END = {True: 4.0, False: 6.0}
"""Where erf has become 1, by `single`."""


def erf(x: Float) -> Float:
    a = abs(x)
    near = x.fma(polynomial(x * x, "erf"), x)
    shifter, r = reduced(polynomial(a.at_most(END[x.single]) - 1.0, "erfc"))
    complement = polynomial(r, "exp").fma(r, 1.0).fma(r, 1.0) * power_of_two(shifter)
    return select(a < 1.0, near, (1.0 - complement).sign_of(x))
