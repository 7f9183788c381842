"""What is modelled under other limits, beside what benchmarks/cliffs.py measured within fewer of them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from vkernels.inspect.explain.explanation import Supposed
from vkernels.inspect.explain.supposed import Planned
from vkernels.ir.plan_json import plan_from_json
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.targets.processors import processor_targets
from vkernels.targets.slices import planned_limits, slice_of
from vkernels.targets.what_if import read_what_if

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from cliffs import SUBJECTS
from cliffs_judge import case_from_json
from plans import arguments_of, space_of

ROOT = Path(__file__).parents[2]
CLIFFS = json.loads((ROOT / "docs" / "measurements" / "cliffs.json").read_text())
OF_THE_RUN = ("load", "took", "ran")
SLOWER = 1.1
"""Times slower from which on a measured difference is none of the noise."""


def measured_on():
    machine = CLIFFS["machine"]
    target = slice_of(processor_targets()[f"cpu:{machine['cpu']}"], f"cores={machine['cores']}")
    return replace(target, cache=machine["cache"])


@pytest.fixture(scope="module", params=SUBJECTS, ids=lambda subject: subject.name)
def asked(request):
    """A case of the measurements, and a function of a plan and a point: what would change there."""
    subject, target = request.param, measured_on()
    space = space_of(subject, arguments_of(subject, np.random.default_rng(1)), planned_limits(target))
    planned = Planned(space.kernel, space.needs, subject.sizes, space.strides, None)
    anew = {}

    def under(plan, point):
        question = read_what_if(f"registers={point.registers},l2={point.shared >> 10}K", target, lambda name: target)
        if question.text not in anew:  # choosing takes long, and is the same for all plans
            anew[question.text] = planned.anew(question.limits)
        return Supposed(question.text, planned.same(question.limits, plan), anew[question.text])

    whole = choose_plan(space.kernel, subject.sizes, space.limits, space.needs, space.strides)
    stored = {name: each for name, each in CLIFFS["cases"][subject.name].items() if name not in OF_THE_RUN}
    return case_from_json(stored), whole.plan, under


@pytest.mark.slow
def test_a_plan_stops_fitting_where_the_measurement_stopped_admitting_it(asked):
    case, _, under = asked
    for number in {choice.plan for choice in case.choices}:
        timed = case.plans[number]
        plan = plan_from_json(dict(timed.plan))
        for point in case.points:
            if case.label.startswith("spdnn") and point.registers < case.points[0].registers:
                continue  # its registers are counted otherwise since
            assert (under(plan, point).same.misfit == "") == timed.fits(point), (str(point), timed.plan)


def test_fewer_registers_are_modelled_to_cost_where_they_cost_in_the_measurement(asked):
    case, plan, under = asked
    whole = [at for at, point in enumerate(case.points) if point.shared == case.points[0].shared]
    measured = [later / sooner for sooner, later in pairwise(case.chosen(at) for at in whole)]
    anew = [under(plan, case.points[at]).anew.modelled.seconds for at in whole]
    modelled = [later / sooner for sooner, later in pairwise(anew)]
    assert all(ratio >= 0.999 for ratio in modelled)  # less is never modelled to be faster
    if max(measured) > SLOWER:
        knee = measured.index(max(measured))
        assert modelled[knee] > 1.05
        assert knee == modelled.index(max(modelled))
    else:
        assert max(modelled) < SLOWER


def test_the_plan_chosen_anew_fits_and_less_level_2_is_never_modelled_to_be_faster(asked):
    case, plan, under = asked
    for registers in (32, 16, 8):
        answers = [under(plan, point) for point in case.points if point.registers == registers]
        times = [answer.anew.modelled.seconds for answer in answers]
        assert all(later >= 0.999 * sooner for sooner, later in pairwise(times))
        for answer in answers:
            assert answer.anew.misfit == ""
            if answer.same.modelled is not None:
                assert answer.anew.modelled.seconds <= 1.001 * answer.same.modelled.seconds
