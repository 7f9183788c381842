"""The tables of coefficients are what the program beside them computes."""

from __future__ import annotations

import mpmath
import pytest

from vkernels.ir.transforms.expand_math import fit
from vkernels.ir.transforms.expand_math.coefficients import DOUBLE, SINGLE


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [name for name in SINGLE if not name.startswith("erf")])
def test_the_single_precision_table_is_as_fitted(name):
    assert fit.fit(fit.targets(single=True)[name], 24) == SINGLE[name]


@pytest.mark.thorough
def test_the_program_prints_both_tables(capsys):
    fit.main()
    printed = {}
    exec(capsys.readouterr().out, printed)
    assert (printed["SINGLE"], printed["DOUBLE"]) == (SINGLE, DOUBLE)


def test_the_error_is_spread_evenly():
    grid = [mpmath.mpf(k) / 50 - 1 for k in range(101)]
    c = fit.remez([mpmath.exp(x) for x in grid], [[1, x, x**2] for x in grid], [1] * len(grid))
    error = [mpmath.exp(x) - mpmath.polyval(c[::-1], x) for x in grid]
    extrema = [error[k] for k in fit.extrema(error, 4)]
    assert [e > 0 for e in extrema] in ([True, False] * 2, [False, True] * 2)
    assert max(map(abs, extrema)) <= min(map(abs, extrema)) * 1.001


def test_too_few_alternations_are_refused():
    with pytest.raises(ValueError, match="1 alternations where 3 are needed"):
        fit.extrema([1.0, 2.0, 1.5], 3)


@pytest.mark.parametrize("bits", [24, 53])
def test_rounding_keeps_so_many_bits(bits):
    third = mpmath.mpf(1) / 3
    assert fit.round_to(-third, bits) == -mpmath.nint(third * 2 ** (bits + 1)) / 2 ** (bits + 1)
