"""Suggestions for names that do not exist."""

from vkernels.ir.did_you_mean import did_you_mean

MANY = [
    f"{kind}_{what}" for kind in ("sum", "softmax", "matmul", "norm") for what in ("rows", "columns", "pairs", "all")
]


def test_a_similar_name_is_suggested_or_those_that_begin_alike():
    assert did_you_mean("sum_row", MANY) == "did you mean sum_rows?"
    assert did_you_mean("s", MANY) == "did you mean sum_rows or sum_columns or sum_pairs?"


def test_few_names_are_listed_and_of_many_the_nearest_three():
    assert did_you_mean("xyz", ["forest", "local"]) == "there are forest, local"
    said = did_you_mean("nrm_zzz_qqq", MANY)
    assert said.startswith("the nearest of 16 are ")
    assert len(said.removeprefix("the nearest of 16 are ").split(", ")) == 3
    assert "norm_" in said


def test_a_beginning_counts_more_than_likeness():
    assert did_you_mean("h10", ["a10", "h100-pcie-80", "h100-sxm5-80"]) == "did you mean h100-pcie-80 or h100-sxm5-80?"
