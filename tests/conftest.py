"""What all tests share: golden files, rewritten with `pytest --update-goldens`."""

from __future__ import annotations

import compileall
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import vkernels  # gives the default session its provider of tuned plans
from vkernels.compiler.default_session import default_session, use_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.runtime.coordinator import shared_board
from vkernels.targets.cpu_rates import family_cpu_rates, store_cpu_rates
from vkernels.targets.host_cpu import usable_cores

# A busy machine is no failure; a failure tells how to see it again.
settings.register_profile("vkernels", deadline=None, print_blob=True)
settings.load_profile("vkernels")

TESTS = Path(__file__).parent
EVERY_SHAPE = 1 << 30
KINDS = {
    "autotune": "compile",
    "autotune/test_searches.py": "unit",
    "autotune/test_space.py": "unit",
    "autotune/test_warm_start.py": "unit",
    "autotune/database": "process",
    "autotune/measure": "process",
    "autotune/measure/test_clocks.py": "unit",
    "autotune/measure/test_compare.py": "unit",
    "autotune/measure/test_drift.py": "unit",
    "autotune/measure/test_intervals.py": "unit",
    "autotune/measure/test_outcomes.py": "unit",
    "bake_off": "compile",
    "benchmarks": "compile",
    "bundles": "process",
    "benchmarks/test_gpu_day.py": "process",
    "commands": "process",
    "commands/test_targets.py": "unit",
    "compiler": "compile",
    "compiler/test_background.py": "process",
    "compiler/test_background_calibration.py": "process",
    "compiler/test_growth.py": "process",
    "compiler/test_plan_fallback.py": "unit",
    "compiler/workers": "process",
    "differential": "process",
    "docs": "process",
    "docs/test_gallery.py": "unit",
    "docs/test_site.py": "compile",
    "environment": "process",
    "farm/test_ray.py": "process",
    "farm/test_turn.py": "process",
    "gallery": "compile",
    "generated": "compile",
    "inspect": "process",
    "inspect/check/test_cells.py": "unit",
    "inspect/check/test_signatures.py": "unit",
    "ir/analysis": "compile",
    "ir/interpret/ttir": "compile",
    "ir/lowering": "compile",
    "ir/planning/test_choose_plan.py": "compile",
    "ir/planning/test_lanes_beside.py": "compile",
    "ir/transforms/expand_math": "compile",
    "ir/transforms/test_homes.py": "compile",
    "ir/transforms/test_k_major.py": "compile",
    "ir/transforms/test_launches.py": "compile",
    "ir/transforms/test_masks.py": "compile",
    "ir/transforms/test_online.py": "compile",
    "ir/transforms/test_online_sums.py": "compile",
    "ir/transforms/test_own_operands.py": "compile",
    "ir/transforms/test_private_copies.py": "compile",
    "ir/transforms/test_shared_words.py": "compile",
    "ir/transforms/test_swizzle.py": "compile",
    "ir/transforms/test_version_chunks.py": "compile",
    "ir/transforms/test_version_selects.py": "compile",
    "language/test_atomics.py": "compile",
    "language/test_budget.py": "compile",
    "language/test_combining.py": "compile",
    "language/test_complex.py": "compile",
    "language/test_docs.py": "compile",
    "language/test_fetches.py": "compile",
    "language/test_first_kernels.py": "process",
    "language/test_kernel.py": "compile",
    "language/test_launches_of_other_axes.py": "compile",
    "language/test_ordering.py": "compile",
    "language/test_masked_atomics.py": "compile",
    "language/test_packed.py": "compile",
    "language/test_pickling.py": "process",
    "language/test_pin.py": "compile",
    "language/test_scripts.py": "process",
    "language/test_split_scans.py": "compile",
    "library": "compile",
    "library/test_arguments.py": "process",
    "memory": "compile",
    "runtime": "compile",
    "runtime/coordinator": "process",
    "runtime/objects": "compile",
    "sparse_network": "compile",
    "test_optional_packages.py": "process",
    "test_project.py": "process",
    "torch": "compile",
}
"""Which tests take longer than a moment: they compile kernels, or start processes. All others are `unit`."""


def pytest_configure(config: pytest.Config) -> None:
    """Give the whole session, all its processes included, one cache of its own and no data of this user's."""
    vkernels.set_threads(usable_cores())  # not torch's one
    use_own_board(config)
    if hasattr(config, "workerinput"):  # of pytest-xdist, which inherits the environment
        return
    folder = tempfile.mkdtemp(prefix="vkernels-tests-")
    os.environ["XDG_CACHE_HOME"], os.environ["XDG_DATA_HOME"] = folder, os.devnull
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would wait for cores that other workers hold
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    store_cpu_rates(family_cpu_rates())  # so that no process of the tests measures
    compile_modules()


def compile_modules() -> None:
    """Compile our modules once where Python is set to keep no byte code: each process of the tests would compile all
    that it imports."""
    if sys.dont_write_bytecode:
        for package in vkernels.__path__:
            compileall.compile_dir(package, quiet=2)


def use_own_board(config: pytest.Config) -> None:
    """Let priorities of the tests meet no other process of this user: their board is in a folder of its own."""
    folder = tempfile.mkdtemp(prefix="vkernels-board-")
    shared_board.FOLDERS = (folder,)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files with what is found")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread that have no test of the only kind that is asked for, as with `-m unit`."""
    kind = config.getoption("markexpr")
    if kind not in ("unit", "compile", "process") or not collection_path.is_file():
        return None
    return True if kind_of(collection_path) != kind else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules and tests are made, which are kept for good."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Look less often for garbage among the many objects that torch, SymPy and the tests themselves keep for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that what Triton made is freed as the interpreter ends


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test as `unit`, `compile` or `process`, unless it is slow or thorough; skip what needs a GPU without
    one."""
    leave_samples(items)
    for item in items:
        if item.get_closest_marker("thorough") is None and item.get_closest_marker("slow") is None:
            item.add_marker(kind_of(item.path))
    on_a_gpu = [item for item in items if item.path.name == "test_on_a_gpu.py"]
    if not on_a_gpu:
        return
    import torch

    missing = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and torch finds none here")
    for item in on_a_gpu:
        item.add_marker(pytest.mark.gpu)
        item.add_marker(missing)


def leave_samples(items: Sequence[pytest.Item]) -> None:
    """Mark cases of tests with the marker `sample` as thorough, except for as many as the marker says."""
    cases: dict[tuple[str, int], list[pytest.Function]] = {}
    for item in items:
        marker = item.get_closest_marker("sample")
        if isinstance(item, pytest.Function) and marker is not None:
            cases.setdefault((item.nodeid.partition("[")[0], marker.args[0]), []).append(item)
    for (_, count), group in cases.items():
        taken = {case.nodeid for case in by_coverage(group, count)}
        for item in group:
            if item.nodeid not in taken:
                item.add_marker("thorough")


def by_coverage(cases: Sequence[pytest.Function], count: int) -> list[pytest.Function]:
    """As many cases as `count`: each time the one with the most values, and pairs of values, of parameters that no case
    before it has.

    Among equals the order is that of a hash, the same in each process.
    """
    left = sorted(cases, key=lambda case: sha256(case.nodeid.encode()).digest())
    covers = {case.nodeid: values_and_pairs(case) for case in left}
    covered: set[Any] = set()
    order: list[pytest.Function] = []
    while left and len(order) < count:
        best = max(left, key=lambda case: len(covers[case.nodeid] - covered))
        covered |= covers[best.nodeid]
        left.remove(best)
        order.append(best)
    return order


def values_and_pairs(case: pytest.Function) -> set[Any]:
    """The values of a case's parameters, and the pairs of them, read from its name."""
    values = list(enumerate(case.callspec.id.split("-")))
    return {*combinations(values, 1), *combinations(values, 2)}


def kind_of(path: Path) -> str:
    """What `KINDS` says of the nearest folder or file above a test; `unit` where it says nothing."""
    name = path.relative_to(TESTS).as_posix()
    while name not in KINDS and name != ".":
        name = str(Path(name).parent)
    return KINDS.get(name, "unit")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a file, or write the file with `--update-goldens`."""
    update = request.config.getoption("--update-goldens")

    def compare(path: Path, text: str) -> None:
        if update:
            path.write_text(text)
        assert path.exists(), f"{path} does not exist; write it with `pytest --update-goldens`"
        assert text == path.read_text()

    return compare


@pytest.fixture(scope="session")
def compiler_session() -> CompilerSession:
    """The compiler session of all tests of a process. Its first calls wait for the plan that they get in the end, which
    is for their own sizes, whatever other tests called."""
    provider = default_session().tuned_plans.provider
    return CompilerSession(DiskCache(), provider, patience=600.0, exact_shapes=EVERY_SHAPE)


@pytest.fixture(autouse=True)
def session(compiler_session: CompilerSession) -> Iterator[CompilerSession]:
    """The default session while a test runs."""
    with use_session(compiler_session):
        yield compiler_session
