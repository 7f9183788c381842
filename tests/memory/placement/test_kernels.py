"""What placing takes a kernel's launch to do: bytes of each tensor, from the project's model of traffic."""

import pytest

from vkernels.autotune.arguments import built
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import strides_of
from vkernels.ir.errors import OptionError
from vkernels.library.tasks import library_tasks
from vkernels.memory.placement.choose import choose
from vkernels.memory.placement.costs import BufferPlacement
from vkernels.memory.placement.kernels import launch_of, limits_with, program_of, tensor_bytes
from vkernels.memory.placement.modelled import modelled
from vkernels.memory.placement.program import MEMORY, Buffer, BufferUse, HostCode, PlacedProgram, Side
from vkernels.targets import known_targets, limits_of
from vkernels.targets.present import present_cpu

ORIN, H100 = (known_targets()[key] for key in ("jetson-agx-orin-64", "h100-sxm5-80"))


def launched(name, target=ORIN, **shape):
    (task, *_) = library_tasks([name], SpecialisationRequest(shape=shape), on_gpu=True)
    kernel = built(task)
    return launch_of(kernel, task.shape, limits_of(target), strides_of(task)), tensor_bytes(kernel, task.shape)


def test_a_row_operation_reads_and_writes_each_element_once():
    launch, sizes = launched("softmax_rows", M=4096, N=1024)
    uses = {use.buffer: use for use in launch.uses}
    assert sizes == {"x": 2 * 4096 * 1024, "out": 2 * 4096 * 1024}
    assert uses["x"].read == pytest.approx(sizes["x"])
    assert uses["out"].written == pytest.approx(sizes["out"])
    assert (uses["x"].written, uses["out"].read, uses["out"].fresh, uses["x"].fresh) == (0, 0, True, False)
    assert launch.parts[MEMORY] == 0  # all of it is tensors'


def test_operands_of_a_product_are_asked_for_much_more_often_than_caches_let_through():
    launch, sizes = launched("matmul_bias", H100, M=4096, K=4096, N=4096)
    uses = {use.buffer: use for use in launch.uses}
    for name in ("a", "b"):
        assert uses[name].asked > 4 * uses[name].read
        assert uses[name].read >= sizes[name] * 0.999
    assert uses["out"].put == pytest.approx(sizes["out"])


def test_rows_that_indices_find_are_scattered_and_the_indices_are_not():
    launch, _ = launched("ell_times_dense")
    uses = {use.buffer: use for use in launch.uses}
    assert uses["dense"].scattered
    assert not uses["column"].scattered


def test_inputs_come_from_the_host_and_results_go_there():
    launch, sizes = launched("matmul_bias", M=512, K=512, N=512)
    program = program_of(launch, sizes)
    found = {each.name: (each.starts, each.wanted) for each in program.buffers}
    assert found["a"] == found["bias"] == (Side.HOST, False)
    assert found["out"] == (None, True)


def test_a_stream_is_reached_in_place_and_what_is_read_again_is_not():
    for target, reused in ((ORIN, BufferPlacement.MANAGED), (H100, BufferPlacement.COPY)):
        access = modelled(target).access
        stream = choose(program_of(*launched("softmax_rows", target)), access)
        assert stream.of("out").placement is BufferPlacement.ZERO_COPY
        assert stream.gain > (2 if access.integrated else 1)
        product = choose(program_of(*launched("matmul_bias", target, M=4096, K=4096, N=4096)), access)
        assert product.of("b").placement is reused


def test_what_one_launch_hands_to_the_next_is_never_copied_or_in_the_hosts_memory():
    first, first_sizes = launched("softmax_rows", H100, M=4096, N=1024)
    second, _ = launched("softmax_rows", H100, M=4096, N=1024)
    size = first_sizes["x"]
    buffers = (Buffer("in", size), Buffer("between", size, None), Buffer("out", size, None, wanted=True))
    steps = (first.on({"x": "in", "out": "between"}), second.on({"x": "between"}))
    decision = choose(PlacedProgram(buffers, steps), modelled(H100).access)
    between = decision.of("between")
    assert between.placement is BufferPlacement.COPY
    assert between.why.startswith("never copied")
    assert between.cost.moving == 0
    looked_at = (steps[0], HostCode("look", (BufferUse("between", read=size),)), steps[1])
    copied = choose(PlacedProgram(buffers, looked_at), modelled(H100).access).of("between").alternatives[0].cost
    assert copied.why == "copied back"
    assert copied.moving == pytest.approx(1e-5 + size / modelled(H100).access.to_host)


def test_a_calibrated_launch_counts_and_a_cpu_has_nothing_to_place():
    access = modelled(ORIN).access
    assert limits_with(limits_of(ORIN), access).launch_seconds == access.launch_seconds
    with pytest.raises(OptionError, match="one memory"):
        launched("softmax_rows", present_cpu())
    with pytest.raises(OptionError, match="one memory"):
        modelled(present_cpu())


@pytest.mark.thorough
def test_every_kernel_of_the_library_is_placed_and_never_slower_than_copying():
    for task in library_tasks(["all"], SpecialisationRequest(), on_gpu=True):
        for target in (ORIN, H100):
            kernel = built(task)
            launch = launch_of(kernel, task.shape, limits_of(target), strides_of(task))
            decision = choose(program_of(launch, tensor_bytes(kernel, task.shape)), modelled(target).access)
            assert decision.gain >= 1 - 1e-9, task
            assert decision.footprint <= decision.copying_footprint, task
