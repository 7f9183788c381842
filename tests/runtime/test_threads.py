"""The number of threads comes from one place."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.runtime import threads as subject
from vkernels.runtime.pool import Waiting
from vkernels.targets import cpu_rates


@pytest.fixture
def unset(monkeypatch):
    """Nothing is set, on a machine of eight cores."""
    monkeypatch.setattr(subject, "usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before, threads = subject._setting, torch.get_num_threads()
    subject._set(None)
    yield
    torch.set_num_threads(threads)
    subject._set(before)


def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def test_all_cores_unless_something_says_otherwise(unset, monkeypatch):
    without_torch(monkeypatch)
    assert vk.get_threads() == 8


@pytest.mark.parametrize(
    ("text", "threads"), [("3", 3), ("4,2", 4), ("64", 8), ("0", 8), ("", 8), ("many", 8), ("-2", 8), ("²", 8)]
)
def test_openmp_s_number_is_followed(unset, monkeypatch, text, threads):
    without_torch(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert vk.get_threads() == threads


def test_torch_s_number_comes_before_openmp_s(unset, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    for number, threads in ((3, 3), (1, 1), (64, 8)):
        torch.set_num_threads(number)
        assert vk.get_threads() == threads


def test_what_is_set_comes_first_and_ends_with_its_block(unset):
    torch.set_num_threads(2)
    with subject.using_threads(11):
        assert vk.get_threads() == 11
    assert vk.get_threads() == 2
    with subject.using_threads(None):
        assert vk.get_threads() == 2


@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2 * x[i]


def cores_of_a_call(x, out):
    events = []
    with vk.on_launch(events.append):
        double(x, out)
    np.testing.assert_array_equal(out, 2 * x)
    return events[-1].slice


def test_calls_that_are_bound_follow_torch(unset):
    x = np.random.default_rng().random(1 << 18)
    out = np.full_like(x, np.nan)
    torch.set_num_threads(3)
    assert cores_of_a_call(x, out) == "cpu:cores=3"
    torch.set_num_threads(1)
    assert cores_of_a_call(x, out) == "cpu:cores=1"
    torch.set_num_threads(2)
    cores_of_a_call(x, out)  # bound for one thread
    assert cores_of_a_call(x, out) == "cpu:cores=2"


def test_the_pool_decides_by_what_handing_over_was_measured_to_cost(monkeypatch):
    monkeypatch.setattr(cpu_rates, "known_cpu_rates", lambda: None)
    assert subject._waiting() == Waiting()
    measured = replace(cpu_rates.family_cpu_rates(), launch=2e-6, wake=9e-5)
    monkeypatch.setattr(cpu_rates, "known_cpu_rates", lambda: measured)
    assert (subject._waiting().share, subject._waiting().wake) == (pytest.approx(6e-6), 9e-5)
    monkeypatch.setattr(cpu_rates, "known_cpu_rates", lambda: replace(measured, wake=1e-6))
    assert subject._waiting().wake == subject._waiting().share  # what sleeps is no nearer than what is awake


IN_A_CHILD = """
import os, sys
from pathlib import Path
from vkernels.targets import host_cpu

groups = Path(sys.argv[1])
host_cpu.CGROUPS, host_cpu.OWN_GROUPS = groups, groups / "own"
if hasattr(os, "sched_setaffinity"):
    core, *_ = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    assert host_cpu.usable_cores() == 1
os.sched_getaffinity = lambda process: set(range(8))
import vkernels as vk

def show(what):
    print(what, vk.get_threads())

show("affinity")
(groups / "inner").mkdir()
(groups / "own").write_text("0::/inner")
(groups / "inner/cpu.max").write_text("250000 100000")
show("group")
os.environ["OMP_NUM_THREADS"] = "2"
show("OpenMP")
os.environ["OMP_NUM_THREADS"] = "64"
show("OpenMP's, too many")
assert "torch" not in sys.modules
import torch
torch.set_num_threads(2)
show("torch")
torch.set_num_threads(64)
show("torch's, too many")
vk.set_threads(5)
show("set")
"""


@pytest.mark.slow
def test_each_place_comes_before_the_next_in_a_process_of_its_own(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", IN_A_CHILD, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        "affinity 8", "group 3", "OpenMP 2", "OpenMP's, too many 3", "torch 2", "torch's, too many 3", "set 5"
    ], done.stderr  # fmt: skip


IN_A_WORKER = """
import torch
import vkernels as vk

class Threads(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, number):
        found = vk.get_threads()
        vk.set_threads(3)
        return found, vk.get_threads()

if __name__ == "__main__":
    torch.set_num_threads(2)
    if SET:
        vk.set_threads(2)
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Threads(), num_workers=1, multiprocessing_context=context)
        print([[int(number) for number in pair] for pair in loader])
    print(vk.get_threads() if SET else 2)
"""


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("is_set", [True, False])
def test_a_worker_that_loads_data_uses_one_thread_unless_it_sets_another(tmp_path, is_set):
    script = tmp_path / "loads.py"
    script.write_text(IN_A_WORKER.replace("SET", str(is_set)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split("\n") == ["[[1, 3]]", "[[1, 3]]", "2", ""], done.stderr
