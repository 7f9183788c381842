"""Tasks, and the arguments that they are called with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.autotune.arguments import built, make_arguments, outputs, scalars
from vkernels.autotune.input_file import read_inputs, write_inputs
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task, kernel_of, strides_of, task_from_json
from vkernels.library.catalogue import CATALOGUE
from vkernels.library.tasks import library_tasks

TASKS = library_tasks(["all"])

MINE = """
import numpy as np
import vkernels as vk
from jaxtyping import Float, Int, Int4

@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], factor: vk.Scalar):
    i = vk.tile("N")
    out[i] = factor * x[i]

@vk.kernel
def take(x: Float[vk.Tensor, "M"], index: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[index[i]]

@vk.kernel
def unpack(w: Int4[vk.Tensor, "M K"], out: Int[vk.Tensor, "M K"]):
    i, k = vk.tile("M"), vk.whole("K")
    out[i, k] = w[i, k].to(vk.int64)

@vk.kernel
def take_drawn(x: Float[vk.Tensor, "M"], index: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[index[i]]

@take_drawn.inputs
def inputs(sizes, dtypes, random):
    return {"index": random.integers(0, sizes["M"], sizes["N"])}

@vk.kernel
def take_wrongly(x: Float[vk.Tensor, "M"], index: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[index[i]]

@take_wrongly.inputs
def inputs(sizes, dtypes, random):
    return {"index": random.integers(0, sizes["M"], 3)}
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    return path


def test_every_kernel_of_the_library_has_a_task_with_sizes_for_a_cpu():
    assert {task.name for task in TASKS} == {entry.name for entry in CATALOGUE}
    assert not [task.name for task in TASKS if kernel_of(task).samples.cpu_sizes is None]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_indices_are_valid_numbers_are_finite_and_outputs_are_empty(task: Task):
    """The interpreter would find an index that is not: checked here for a small call of the same kernel."""
    small = _smaller(task)
    arguments = make_arguments(small, seed=3)
    written = outputs(small)
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and name not in written:
            assert np.isfinite(value).all(), name
    kernel_of(small).interpret(**arguments, **small.constants)
    assert any(np.isfinite(arguments[name]).any() for name in written)


def _smaller(task: Task) -> Task:
    """The same with at most a few positions of each axis, sizes that follow made anew."""
    keep = {"size", "P", "Q"} if task.name in ("mass", "stiffness", "stiffness_at_nodes") else set()
    sizes = kernel_of(task).samples.cpu_sizes or {}
    shape = {name: size if name in keep else min(size, 20 if name in "HW" else 6) for name, size in sizes.items()}
    smaller = library_tasks([task.name], SpecialisationRequest(shape=shape))
    return next(small for small in smaller if small.name == task.name)


@pytest.mark.parametrize("task", TASKS[:12], ids=lambda task: task.name)
def test_tensors_lie_as_the_strides_say_from_the_address_of_a_line_on(task: Task):
    strides = strides_of(task)
    for name, value in make_arguments(task).items():
        if isinstance(value, np.ndarray):
            assert tuple(stride // value.itemsize for stride in value.strides) == strides[name], name
            assert value.ctypes.data % 64 == 0


def test_arguments_are_the_same_for_a_seed_and_others_for_another():
    (task,) = library_tasks(["csr_times_dense"])
    one, same, other = (make_arguments(task, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], same[name], equal_nan=True) for name in one)
    assert not np.array_equal(one["column"], other["column"])


def test_attention_gets_its_queries_as_the_library_lays_them_out():
    (task,) = library_tasks(["attention_rows"])
    q = make_arguments(task)["q"]
    assert q.shape[-2:] == (64, 512)
    assert q.strides[-2] == q.itemsize


def test_sizes_that_follow_follow_and_others_are_refused():
    (task,) = library_tasks(["csr_times_dense"], SpecialisationRequest(shape={"R": 10}))
    assert task.shape["S"] == 11
    with pytest.raises(vk.OptionError, match="S=12 does not go with the other sizes"):
        library_tasks(["csr_times_dense"], SpecialisationRequest(shape={"R": 10, "S": 12}))


def test_bfloat16_comes_as_torch_and_what_is_computed_stays_float32():
    torch = pytest.importorskip("torch")
    (task,) = library_tasks(["cross_entropy_rows"], SpecialisationRequest(dtype="bfloat16"))
    arguments = make_arguments(task)
    assert arguments["x"].dtype == torch.bfloat16
    assert arguments["loss"].dtype == np.float32


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (["softmax_row"], SpecialisationRequest(), "did you mean softmax_rows"),
        (["softmax_rows"], SpecialisationRequest(shape={"K": 1}), "has no size 'K'"),
        (["softmax_rows"], SpecialisationRequest(dtype="int8"), "cannot be int8"),
        (["softmax_rows"], SpecialisationRequest(dtypes={"y": "float32"}), "has no tensor 'y'"),
        (["softmax_rows"], SpecialisationRequest(constants={"a": 1}), "has no constant 'a'"),
        (["all"], SpecialisationRequest(shape={"QQ": 1}), "all has no size 'QQ'"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_may_be_meant(names, wanted, message):
    with pytest.raises(vk.OptionError, match=message):
        library_tasks(names, wanted)


def test_all_are_those_that_can_be_what_is_wanted():
    found = {task.name for task in library_tasks(["all"], SpecialisationRequest(shape={"V": 100}, dtype="float16"))}
    assert {"cross_entropy_rows", "bags_of_rows"} <= found
    assert "softmax_rows" not in found


def test_a_users_kernel_is_called_with_its_own_inputs(mine: Path):
    (task,) = library_tasks([f"{mine}:double"], SpecialisationRequest(shape={"N": 100}))
    arguments = make_arguments(task)
    kernel_of(task)(**arguments)
    assert np.allclose(arguments["out"], 0.5 * arguments["x"])
    assert outputs(task) == ("out",)
    (task,) = library_tasks([f"{mine}:take_drawn"], SpecialisationRequest(shape={"M": 7, "N": 100}))
    arguments = make_arguments(task)
    kernel_of(task)(**arguments)
    assert np.array_equal(arguments["out"], arguments["x"][arguments["index"]])


def test_integers_of_4_bits_are_any_as_many_bytes_as_the_values_take(mine: Path):
    (task,) = library_tasks([f"{mine}:unpack"], SpecialisationRequest(shape={"M": 9, "K": 101}))
    arguments = make_arguments(task)
    assert arguments["w"].shape == (9, 51)
    assert len(np.unique(arguments["w"])) > 100
    kernel_of(task)(**arguments)
    assert np.array_equal(arguments["out"][:, ::2], (arguments["w"] & 15 ^ 8).astype(int) - 8)


def test_indices_that_nobody_gives_or_that_do_not_fit_are_refused(mine: Path):
    (task,) = library_tasks([f"{mine}:take"], SpecialisationRequest(shape={"M": 7, "N": 100}))
    with pytest.raises(vk.ArgumentError, match=r"`index` takes integers.*@take\.inputs"):
        make_arguments(task)
    (task,) = library_tasks([f"{mine}:take_wrongly"], SpecialisationRequest(shape={"M": 7, "N": 100}))
    with pytest.raises(vk.ArgumentError, match=r"index has shape \(3,\)"):
        make_arguments(task)
    with pytest.raises(vk.OptionError, match="sizes must be given: N"):
        library_tasks([f"{mine}:double"])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_comes_back_from_json(task: Task):
    assert task_from_json(json.loads(json.dumps(task.to_request()))) == task
    assert hash(task_from_json(task.to_request())) == hash(task)


@pytest.mark.parametrize(
    "data",
    [
        None, [], {"kernel": 3}, {"kernel": "a\x1b[0m"}, {"kernel": ""}, {"kernel": "a", "shape": {"M": -1}},
        {"kernel": "a", "shape": {"M": True}}, {"kernel": "a", "shape": {"M": 1e3}}, {"kernel": "a", "shape": [1]},
        {"kernel": "a", "dtypes": {"x": 3}}, {"kernel": "a", "constants": {"x": []}}, {"kernel": "a", "more": 1},
        {"kernel": "a", "constants": {"x": float("nan")}}, {"kernel": "a", "shape": {f"{n}": 1 for n in range(300)}},
    ],
)  # fmt: skip
def test_a_task_of_odd_json_is_refused(data):
    with pytest.raises(vk.FileError):
        task_from_json(data)


def test_scalars_and_ir_need_no_arrays():
    (task,) = library_tasks(["count_in_parts"], SpecialisationRequest(shape={"E": 10**15}))
    assert scalars(task)["length"] == -(-(10**15) // 256)
    assert built(task).name == "vk.kernel"


def test_own_inputs_go_through_a_file_unchanged(tmp_path):
    (task,) = library_tasks(["softmax_rows"], SpecialisationRequest("bfloat16", shape={"M": 3, "N": 5}))
    name = kernel_of(task).parameters[0].name
    values = torch.randn(3, 5).bfloat16()
    write_inputs(tmp_path / "in.npz", {name: values, "file": np.arange(3), "factor": 0.5, "flag": True})
    read = read_inputs(tmp_path / "in.npz")
    assert (read["factor"], read["flag"], list(read["file"])) == (0.5, True, [0, 1, 2])
    assert torch.equal(make_arguments(task, own={name: read[name]})[name], values)
    (tmp_path / "in.npz").write_bytes(b"PK")
    with pytest.raises(vk.FileError, match="cannot be read"):
        read_inputs(tmp_path / "in.npz")
