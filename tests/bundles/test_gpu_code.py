"""Code for GPUs in bundles: compiled without a GPU, and run through a driver that is not there."""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

import vkernels as vk
from tests.bundles import kernels
from tests.commands.conftest import run_vk  # noqa: F401 (a fixture)
from tests.runtime.gpu.fakes import FakeDriver, OnGpu, RunningDriver, use
from vkernels.bundles.build import bundled, target_of
from vkernels.bundles.build_request import BuildOptions, BuildRequest
from vkernels.bundles.bundle import open_bundle, write_bundle
from vkernels.bundles.container import HEADER, container_of
from vkernels.bundles.host_sizes import host_arguments
from vkernels.bundles.manifest import GpuHost, HostStep
from vkernels.bundles.record_host import recorded_host
from vkernels.bundles.verify import check_contents
from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.size_classes import SizeClass
from vkernels.runtime.dispatch import Launcher
from vkernels.targets import target_named

SHAPES = {"M": 6, "N": 64}, {"M": 6, "N": 37}
TYPES = {"x": "float32", "out": "float32"}


def request_of(kernel, shapes=SHAPES, **more):
    return BuildRequest(kernel, kernel.signature(**TYPES, **more), shapes, reference=f"kernels:{kernel.name}")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A bundle with binaries of both vendors, and code for this machine."""
    session = CompilerSession(patience=600.0)
    options = BuildOptions(("h200-sxm-141", "mi300x", "cpu"), plain=False)
    path = tmp_path_factory.mktemp("real") / "real.vkb"
    write_bundle(path, *bundled([request_of(kernels.softmax, SHAPES[:1])], options, session))
    session.close()
    return path


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """Builds a bundle whose binaries are the text that the interpreter runs."""

    def build(*requests, plain=False, **options):
        use(monkeypatch, FakeDriver())
        session = CompilerSession(patience=600.0)
        path = tmp_path / "net.vkb"
        write_bundle(path, *bundled(requests, BuildOptions(("h200-sxm-141",), plain=plain, **options), session))
        session.close()
        return vk.load(path, trust="unsigned")

    return build


def tensors(shape, offset=0):
    """Random values, and poisoned memory for the result, `offset` elements behind an aligned address."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    count = shape[0] * shape[1]
    given = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    memory = [torch.full((count + offset + 16,), np.nan) for _ in range(2)]
    placed = []
    for each in memory:
        first = (-each.data_ptr() % 64) // 4 + offset
        placed.append(each[first : first + count].view(shape))
    placed[0].copy_(torch.from_numpy(given).view(shape))
    return [OnGpu(each) for each in placed]


@pytest.mark.parametrize("shape", [(6, 64), (6, 37)])
@pytest.mark.parametrize("offset", [0, 1])
def test_results_have_the_bits_of_compiled_calls(pretended, monkeypatch, shape, offset):
    net = pretended(request_of(kernels.softmax))
    x, out = tensors(shape, offset)
    other = OnGpu(torch.full_like(out.memory, np.nan))
    use(monkeypatch, driver := RunningDriver([x, out]))
    net.softmax(x, out)
    use(monkeypatch, compiled := RunningDriver([x, other]))
    Launcher(kernels.softmax)(x, other)
    assert out.memory.numpy().tobytes() == other.memory.numpy().tobytes()
    wide = np.exp(x.memory.double().numpy())
    np.testing.assert_allclose(out.memory.numpy(), wide / wide.sum(1, keepdims=True), rtol=1e-5)
    if offset or shape == (6, 37):
        return
    assert driver.loaded == compiled.loaded
    assert [each.grid for each in driver.launches] == [each.grid for each in compiled.launches]


def test_aligned_and_other_addresses_run_code_of_their_own(pretended, monkeypatch):
    net = pretended(request_of(kernels.softmax, SHAPES[:1]))
    aligned, other = tensors((6, 64)), tensors((6, 64), 1)
    use(monkeypatch, driver := RunningDriver([*aligned, *other]))
    net.softmax(*aligned)
    net.softmax(*other)
    net.softmax(*aligned)
    assert len({code for code, _, _ in driver.loaded}) == len(driver.loaded) == 2
    assert [each.function for each in driver.launches] == [1, 2, 1]


@pytest.mark.slow
def test_plain_code_serves_any_sizes_and_strides(pretended, monkeypatch):
    path = pretended(request_of(kernels.softmax, SHAPES[:1]), plain=True).bundle.path
    for shape, offset, turned in ((6, 64), 0, False), ((3, 100), 0, False), ((5, 39), 1, False), ((7, 33), 1, True):
        net = vk.load(path, trust="unsigned", fallback="plain")  # which has loaded nothing into this driver yet
        assert {code.role for code in net.bundle.manifest.codes} == {"shape", "class", "plain"}
        x, out = tensors(shape[::-1] if turned else shape, offset)
        if turned:
            x, out = (OnGpu(each.memory.t()) for each in (x, out))
        use(monkeypatch, driver := RunningDriver([x, out]))
        net.softmax(x, out)
        wide = np.exp(x.memory.double().numpy())
        np.testing.assert_allclose(out.memory.numpy(), wide / wide.sum(1, keepdims=True), rtol=1e-5)
        assert driver.launches


def test_the_host_computes_as_the_compiler_does(pretended):
    """Of sizes that a call has: by the record of a bundle as by the lowered kernel that it was made of."""
    session = CompilerSession(patience=600.0)
    kernel, sizes = kernels.softmax, {"M": 6, "N": 64}
    arguments = example_arguments(kernel, kernel.signature(**TYPES), sizes)
    target = target_of("h200-sxm-141")
    request = CompileRequest(kernel, arguments, CompileTarget(target.limits, target.architecture, target.name))
    changing = SizeClass({"M": 4096, "N": 1 << 20})
    lowered = [
        session.compile(request).of_class(changing).lower(plan).lowered
        for plan, _ in session.compile(request).of_class(changing).plans.plain()
    ]
    session.close()
    random = np.random.default_rng(seed := np.random.SeedSequence().entropy)
    print(f"seed {seed}")
    for each in lowered:
        for _ in range(20):
            drawn = {"M": int(random.integers(0, 4097)), "N": int(random.integers(0, 1 << 20))}
            assert host_arguments(recorded_host(each.host), drawn, "a test") == each.prepare(drawn)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((HostStep("size", "K"),), "a size that its kernel does not have: K"),
        ((HostStep("addi", of=(0, 1)), HostStep("value", value=1)), "used before it is computed"),
        ((HostStep("value", value=1 << 61), HostStep("muli", of=(0, 0))), "more than 62 bits"),
    ],
)
def test_records_of_sizes_that_contradict_themselves_are_refused(steps, said):
    with pytest.raises(vk.BundleError, match=said):
        host_arguments(GpuHost(steps, (), ((0,),), ((),)), {"M": 1}, "a test")


def test_scalars_and_tensors_in_place(pretended, monkeypatch):
    net = pretended(request_of(kernels.scale, SHAPES[:1], factor=float), in_place=True)
    x, _ = tensors((6, 64))
    wanted = x.memory * 3
    use(monkeypatch, RunningDriver([x]))
    net.scale(x, 3.0, x)
    assert torch.equal(x.memory, wanted)


def test_what_it_has_no_code_for_is_refused(pretended, monkeypatch):
    net = pretended(request_of(kernels.softmax, SHAPES[:1]))
    use(monkeypatch, driver := FakeDriver())
    with pytest.raises(vk.NotInBundleError, match=r"no code for M=7, N=64 .* it has code for M=6, N=64"):
        net.softmax(*tensors((7, 64)))
    x = np.ones((6, 64), np.float32)
    with pytest.raises(vk.NotInBundleError, match="no code for this machine; it has code for h200-sxm-141"):
        net.softmax(x, x.copy())
    monkeypatch.setattr(driver, "target", lambda device: target_named("a100-sxm4-80"))
    use(monkeypatch, driver)
    with pytest.raises(vk.NotInBundleError, match=r"no code for NVIDIA A100.*; it has code for h200-sxm-141"):
        net.softmax(*tensors((6, 64)))
    assert driver.loaded == []


def test_a_program_that_does_not_fit_on_the_device_is_refused(pretended, monkeypatch):
    net = pretended(request_of(kernels.softmax, SHAPES[:1]))
    use(monkeypatch, FakeDriver(blocks=0))
    with pytest.raises(vk.NotInBundleError, match="needs more registers than"):
        net.softmax(*tensors((6, 64)))


def test_a_first_call_within_a_graph_is_refused(pretended, monkeypatch):
    net = pretended(request_of(kernels.softmax, SHAPES[:1]))
    given = tensors((6, 64))
    use(monkeypatch, driver := RunningDriver(given))
    driver.captures = True
    with pytest.raises(vk.ArgumentError, match="cannot be done while a CUDA graph is captured"):
        net.softmax(*given)
    driver.captures = False
    net.softmax(*given)
    driver.captures = True
    net.softmax(*given)
    assert len(driver.launches) == 2


def test_code_for_the_most_similar_slice_is_taken(pretended, monkeypatch, tmp_path):
    use(monkeypatch, FakeDriver())
    names = "h200-sxm-141", "h200-sxm-141:1g.18gb"
    manifest, files = bundled([request_of(kernels.softmax, SHAPES[:1])], BuildOptions(names), CompilerSession())
    write_bundle(tmp_path / "net.vkb", manifest, files)
    from vkernels.bundles.frozen_gpu import gpu_runnable

    (variant,) = manifest.kernels[0].variants
    device = use(monkeypatch, FakeDriver())
    assert gpu_runnable(variant, device)[0].target == names[0]
    small = replace(device, limits=target_of(names[1]).limits)
    assert gpu_runnable(variant, small)[0].target == names[1]


def test_binaries_of_both_vendors_are_whole(real):
    bundle = open_bundle(real, "unsigned")
    check_contents(bundle)
    machines = {code.machine for code in bundle.manifest.codes if code.gpu is not None}
    assert machines == {"sm_90", "gfx942"}
    for code in bundle.manifest.codes:
        for name in code.binaries:
            assert bundle.read(name)[:4] == b"\x7fELF"


def test_a_binary_of_another_machine_is_found(real, tmp_path):
    bundle = open_bundle(real, "unsigned")
    files = {entry.name: bundle.read(entry.name) for entry in bundle.manifest.files}
    for name in files:
        if name.endswith(".cubin"):
            files[name] = files[name][:18] + struct.pack("<H", 62) + files[name][20:]
    write_bundle(tmp_path / "bad.vkb", bundle.manifest, files)
    with pytest.raises(vk.BundleError, match="this is no binary for sm_90"):
        check_contents(open_bundle(tmp_path / "bad.vkb", "unsigned"))


def test_the_cpus_code_of_a_mixed_bundle_runs(real):
    x = np.random.default_rng().normal(size=(6, 64)).astype(np.float32)
    out, wanted = np.full((2, 6, 64), np.nan, np.float32)
    vk.load(real, trust="unsigned").softmax(x, out)
    kernels.softmax(x, wanted)
    assert out.tobytes() == wanted.tobytes()


def test_code_for_gpus_needs_the_second_format(real, net):
    data = real.read_bytes()
    assert HEADER.unpack_from(data)[1] == 2  # none for other sizes, which would take the third
    assert HEADER.unpack_from(net.read_bytes())[1] == 1
    with pytest.raises(vk.BundleError, match="format 1 has no code for GPUs"):
        container_of(data[:8] + struct.pack("<I", 1) + data[12:], "old.vkb")


def test_code_of_both_or_neither_is_refused(real, tmp_path):
    bundle = open_bundle(real, "unsigned")
    files = {entry.name: bundle.read(entry.name) for entry in bundle.manifest.files}
    (kernel,) = bundle.manifest.kernels
    (variant,) = kernel.variants
    none = replace_in(variant, cpu=None, gpu=None)
    broken = msgspec.structs.replace(bundle.manifest, kernels=(msgspec.structs.replace(kernel, variants=(none,)),))
    write_bundle(tmp_path / "bad.vkb", broken, files)
    with pytest.raises(vk.BundleError, match="must be of a CPU or of a GPU"):
        open_bundle(tmp_path / "bad.vkb", "unsigned")


def replace_in(variant, **fields):
    codes = tuple(msgspec.structs.replace(code, **fields) for code in variant.codes)
    return msgspec.structs.replace(variant, codes=codes)


def test_a_launch_that_takes_what_the_kernel_lacks_is_refused(pretended, monkeypatch, tmp_path):
    net = pretended(request_of(kernels.softmax, SHAPES[:1]))
    bundle = net.bundle
    files = {entry.name: bundle.read(entry.name) for entry in bundle.manifest.files}
    (kernel,) = bundle.manifest.kernels
    (variant,) = kernel.variants
    code = variant.codes[0].gpu
    launch = code.launches[0]
    wrong = msgspec.structs.replace(launch.parameters[0], name="nobody")
    launch = msgspec.structs.replace(launch, parameters=(wrong, *launch.parameters[1:]))
    made = replace_in(variant, gpu=msgspec.structs.replace(code, launches=(launch,)))
    manifest = msgspec.structs.replace(bundle.manifest, kernels=(msgspec.structs.replace(kernel, variants=(made,)),))
    write_bundle(tmp_path / "bad.vkb", manifest, files)
    given = tensors((6, 64))
    use(monkeypatch, driver := RunningDriver(given))
    with pytest.raises(vk.BundleError, match="takes what the kernel does not have: 'nobody'"):
        vk.load(tmp_path / "bad.vkb", trust="unsigned").softmax(*given)
    assert driver.launches == []


def test_programs_are_not_recorded_for_gpus(run_vk, tmp_path):  # noqa: F811
    (tmp_path / "models.py").write_text("def net():\n    return print, 1\n")
    code, _, errors = run_vk(
        "build", tmp_path / "models.py:net", "--targets", "cpu,mi300x", "-o", tmp_path / "net.vkb"
    )  # fmt: skip
    assert code == 2
    assert "programs are recorded on the CPU" in errors


@pytest.mark.slow
def test_a_process_without_compilers_starts_it(real):
    """With a driver that notes what it is asked for, and tensors that say they are on a GPU."""
    script = """
        import sys

        REFUSED = {"triton", "llvmlite", "xdsl", "jaxtyping", "scipy", "sklearn", "sqlalchemy", "typer"}

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in REFUSED:
                    raise ModuleNotFoundError(name)

        import torch

        sys.meta_path.insert(0, Refuse())
        from contextlib import nullcontext

        import vkernels as vk
        from vkernels.runtime.gpu import device
        from vkernels.targets import limits_of, target_named

        class Driver:
            launch_address, loaded, launched = None, [], []
            on = staticmethod(lambda number: nullcontext())
            is_capturing = staticmethod(lambda: False)
            current_device = staticmethod(lambda: 0)
            stream = staticmethod(lambda number: 7)
            load = lambda self, code, name, shared: self.loaded.append(code) or len(self.loaded)
            resident = lambda self, function, threads, shared: 2
            launch = lambda self, *launch: self.launched.append(launch)

        class OnGpu(torch.Tensor):
            @staticmethod
            def __new__(cls, memory):
                made = torch.Tensor._make_wrapper_subclass(
                    cls, memory.shape, strides=memory.stride(), dtype=memory.dtype, device=torch.device("cuda:0")
                )
                made.memory = memory
                return made

            data_ptr = lambda self: self.memory.data_ptr()
            untyped_storage = lambda self: self.memory.untyped_storage()
            storage_offset = lambda self: self.memory.storage_offset()

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                raise AssertionError(function)

        target = target_named("h200-sxm-141")
        found = device.GpuDevice(0, driver := Driver(), target, limits_of(target))
        device.present_gpu = lambda name: found
        net = vk.load(sys.argv[1], trust="unsigned")
        net.softmax(OnGpu(torch.ones(6, 64)), OnGpu(torch.ones(6, 64)))
        assert driver.loaded[0][:4] == bytes([0x7F]) + b"ELF"
        function, grid, threads, shared, stream, arguments = driver.launched[0]
        assert (function, stream) == (1, 7) and grid > 0 and threads % 32 == 0
        import vkernels.runtime.gpu.calls_by_priority  # which calls of low priority import
        print(*sorted(REFUSED & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), real], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_a_gpu_of_this_machine_is_a_target_by_its_number(monkeypatch):
    class Here(FakeDriver):
        def target(self, device):
            return replace(target_named("h200-sxm-141"), key=f"nvidia:{device}", like="h200-sxm-141")

    use(monkeypatch, Here())
    known = target_of("h200-sxm-141")
    here = target_of("nvidia:0")
    assert (here.name, here.architecture, here.limits) == ("h200-sxm-141", known.architecture, known.limits)
    part = target_of("nvidia:0:1g.18gb")
    assert (part.name, part.limits) == ("h200-sxm-141:1g.18gb", target_of("h200-sxm-141:1g.18gb").limits)
    with pytest.raises(vk.OptionError, match="amd:0: this is NVIDIA H200"):
        target_of("amd:0")
