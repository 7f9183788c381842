"""One seed's cases: a kernel, planned for several limits, each plan run on several calls."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import prod

from vkernels.compiler.size_classes import EXACT, WIDE, SizeClass
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import Needs, NeedsDevice
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.choose_plan import Chosen, choose_bottom, choose_plan, plans_down
from vkernels.ir.planning.fits import SWAP

from ..outcome import Failure, Outcome, shortened
from .code import Native, Ttir, checked_run, holds, mapped_by
from .library import random_library_kernel
from .limits import random_limits
from .subjects import Case, RandomSubject, Subject, library_subject

LIMITS = 4
"""Limits that each kernel is planned for."""
CALLS = {"native": 10, "TTIR": 6}
"""Calls of each plan's code."""
LOOKED = 10
"""Plans further down that are looked at, at most, for one that decides otherwise than by sizes."""
LONGEST = 0.1
"""Seconds that interpreting TTIR may take, about, for a call not to be left out."""
LARGEST = 20_000
"""Elements of the axes that a plan must have exactly so long, at most."""
LONG = 3
"""Times its least number that a size without another limit is at most."""
ROOMS = (4, 20, 60, 200, 700, 3000)
"""Elements of the tiles of a call, at most."""
FAR = (1, 5, 64, 1000, 1024, 4096, 30011, 1 << 16, 1 << 20, (1 << 24) + 3)
"""Sizes that plans are made for whose code then runs smaller calls."""


def run_group(seed: int, note: Callable[[str], None] = lambda _: None) -> Outcome:
    """All cases of a seed. `note` is told what comes next, so that a crash or a hang can be told of."""
    outcome = Outcome()
    choose = random.Random(seed)
    subject = random_subject(choose, of_library=choose.random() < 0.6)
    for number in range(LIMITS):
        again = random.Random(f"{seed}/{number}")
        on_gpu = again.random() < 0.5 and not subject.is_for_cpus
        run_limits(subject, again, on_gpu, outcome, seed, note)
    return outcome


def random_subject(choose: random.Random, of_library: bool) -> Subject:
    """A kernel of the library, or one of the generator's that has a meaning for several programs."""
    if of_library:
        return library_subject(random_library_kernel(choose))
    while True:
        subject = RandomSubject(choose.getrandbits(31))
        if not subject.races:  # else one program must have all of an axis, whatever the limits
            return subject


def run_limits(
    subject: Subject,
    choose: random.Random,
    on_gpu: bool,
    outcome: Outcome,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
    limits: Limits | None = None,
) -> None:
    """Plan a kernel for limits, random unless given, and run its plans on several calls; `outcome` is added to."""
    limits = random_limits(choose, on_gpu) if limits is None else limits
    layouts = choose.getrandbits(32)
    seeded, room = choose.getrandbits(32), choose.choice(ROOMS)

    def draw() -> Case:
        return subject.draw(random.Random(seeded), layouts, room, {}, {})

    case = draw()
    far = not isinstance(subject, RandomSubject) and choose.random() < 0.25
    sizes = _far_sizes(choose, case) if far else case.sizes
    where = f"{subject.label}, {limits}, sizes {dict(sizes)}"
    note(where)
    try:
        picked = list(_picked(choose, subject, sizes, limits, case, outcome))
    except Exception:
        outcome.failures.append(Failure(seed, where, shortened(traceback.format_exc())))
        return
    for chosen in picked:
        here = f"{where}, same {case.same}, rung {chosen.rung}, {chosen.plan}"
        note(here)
        try:
            first = None if far else draw()
            wrong = _run_plan(subject, chosen, limits, sizes, first, case, layouts, choose, outcome)
        except Exception:
            wrong = shortened(traceback.format_exc())
        if wrong:
            outcome.failures.append(Failure(seed, here, wrong))


def _far_sizes(choose: random.Random, case: Case) -> dict[str, int]:
    return {name: length if length <= 2 else choose.choice(FAR) for name, length in case.sizes.items()}


def _picked(
    choose: random.Random, subject: Subject, sizes: Mapping[str, int], limits: Limits, case: Case, outcome: Outcome
) -> Iterator[Chosen]:
    """The best plan, and now and then one further down or the last. Raises `AssertionError` for what does not fit."""
    strides = {name: view.strides for name, view in case.views.items()}
    kernel = kernel_in(subject.merged(case.same))
    needs = subject.needs if case.same is None else annotate_needs(kernel)
    arguments = (kernel, sizes, limits)
    down = plans_down(*arguments, needs, strides, subject.pin)
    first = next(down)
    outcome.counts["chosen"] += 1
    outcome.counts[f"rung {first.rung}"] += 1
    check_fits(needs, first, sizes, limits)
    if choose.random() < 0.05:
        outcome.counts["chosen twice"] += 1
        again = choose_plan(*arguments, annotate_needs(kernel), strides, subject.pin)
        assert frozen(again.plan) == frozen(first.plan), f"the same choice twice gives {first.plan} and {again.plan}"
    yield first
    what = choose.random()
    if first.rung == "bottom":
        assert next(down, None) is None, "plans go on after the bottom rung's"
    elif what < 0.4:
        looked = list(islice(down, choose.randint(1, LOOKED)))
        other = next((each for each in looked if _decisions(each.plan) != _decisions(first.plan)), looked[-1])
        outcome.counts["further down"] += 1
        check_fits(needs, other, sizes, limits)
        yield other
    elif what < 0.5:
        yield choose_bottom(*arguments, strides, subject.pin)


def _decisions(plan: Plan) -> tuple[object, ...]:
    """Those that are no sizes."""
    structure = (
        plan.copies, plan.launches, plan.online, plan.packs, plan.lanes, plan.swizzle, plan.private_copies, plan.guards,
        plan.descriptors, plan.k_major, plan.warp_specialized,
    )  # fmt: skip
    return frozen(plan.homes), tuple(plan.splits), *structure


def check_fits(needs: Needs, chosen: Chosen, sizes: Mapping[str, int], limits: Limits) -> None:
    """Raises `AssertionError` where what a plan takes, evaluated anew, is more than there is."""
    plan = chosen.plan
    use = needs.evaluate(plan, sizes, NeedsDevice.of(limits))
    assert use.threads <= limits.threads, f"{use.threads} threads of {limits.threads}: {plan}"
    if chosen.rung == "bottom":
        assert plan.warps == 1, plan
        return
    assert use.shared_bytes <= limits.shared, f"{use.shared_bytes} bytes of shared memory of {limits.shared}: {plan}"
    assert limits.warp == 1 or not use.spills, f"spills: {plan}"
    columns = use.tensor_memory_columns
    assert not limits.tensor_memory or columns <= limits.tensor_memory, f"{columns} columns: {plan}"
    resident = min(use.programs[-1] if use.programs else 1, limits.multiprocessors)
    assert use.swap_bytes * resident <= SWAP * limits.memory, f"{use.swap_bytes} bytes of swap: {plan}"


def _run_plan(
    subject: Subject, chosen: Chosen, limits: Limits, sizes: Mapping[str, int], first: Case | None, like: Case,
    layouts: int, choose: random.Random, outcome: Outcome,
) -> str:  # fmt: skip
    """Compile a plan's code and run calls; what is wrong, empty if nothing is."""
    on_gpu, plan = limits.warp > 1, chosen.plan
    of = _size_class(choose, sizes, on_gpu)
    mapped, facts = mapped_by(subject, plan, like, sizes, on_gpu, choose.random() < 0.2, of)
    code: Native | Ttir
    if on_gpu:
        code = Ttir.of(mapped, facts, plan.resident_programs)
        for launch in code.lowered.launches:
            if launch.scratch_bytes > limits.shared:
                return f"scratchpad takes {launch.scratch_bytes} bytes of {limits.shared}"
    else:
        code = Native.of(mapped, facts, limits.register_bytes)
    outcome.note_plan(plan, (subject.label, plan, facts, on_gpu, limits.register_bytes))
    case = first
    way = "TTIR" if on_gpu else "native"
    if prod(max(1, n) for n in (*facts.sizes.values(), *facts.capacities.values())) > LARGEST:
        outcome.counts["too large"] += 1
        return ""
    for number in range(CALLS[way]):
        if number or case is None:
            try:
                known = {**_sizes_within(choose, facts), **facts.sizes}
                case = subject.draw(choose, layouts, choose.choice(ROOMS), known, facts.multiples)
            except MemoryError:
                outcome.counts["too large"] += 1
                continue
        if not holds(facts, like.same, case):
            outcome.counts["other layouts"] += 1
            continue
        if code.seconds(case, subject, plan) > LONGEST:
            outcome.counts["too long"] += 1
            continue
        try:
            wrong = checked_run(code, case, subject.written, choose.getrandbits(20))
        except MemoryError:  # all programs' tiles together, in NumPy
            outcome.counts["too large"] += 1
            continue
        except Exception:
            wrong = shortened(traceback.format_exc())
        outcome.counts["cases"] += 1
        outcome.counts[way] += 1
        outcome.counts["in place"] += case.same is not None
        outcome.counts[f"run on {chosen.rung}"] += 1
        outcome.counts["empty"] += 0 in case.sizes.values()
        if wrong:
            return f"sizes {case.sizes}, {facts}\n{wrong}"
    return ""


def _size_class(choose: random.Random, sizes: Mapping[str, int], on_gpu: bool) -> SizeClass:
    """A class of which these sizes are the largest; most often that of these sizes alone."""
    if choose.random() < 0.6:
        return EXACT
    most = {name: size for name, size in sizes.items() if size > 1 and choose.random() < 0.7}
    return SizeClass(most, frozenset(name for name, size in most.items() if on_gpu and size % WIDE == 0))


def _sizes_within(choose: random.Random, facts: Facts) -> dict[str, int]:
    """Sizes between those of facts, most often near one end. Not every reference has a meaning for none."""
    found = {}
    for name in facts.capacities | facts.least:
        step, least = facts.multiples.get(name, 1), facts.least.get(name, 1)
        most = facts.capacities.get(name, min(facts.bounds.get(name, LONG * least), LONG * least))
        near = choose.choice([least, least + 1, most // 2, most - 1, most, choose.randint(least, most)])
        found[name] = max(-(-least // step) * step, min(near, most) // step * step)
    return found
