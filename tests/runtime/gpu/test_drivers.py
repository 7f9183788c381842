"""CUDA's and HIP's drivers are called with what their headers declare, and what they answer is checked."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from ctypes import c_int, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton

from vkernels.ir.errors import OutOfMemoryError, SetupError
from vkernels.runtime.gpu import cuda_driver as cuda
from vkernels.runtime.gpu import hip_driver as hip
from vkernels.runtime.gpu.cuda_driver import CudaDriver
from vkernels.runtime.gpu.driver import RELAXED, open_library
from vkernels.runtime.gpu.hip_driver import HipDriver

BACKENDS = Path(triton.__file__).parent / "backends"
HEADERS = {
    "cuda": BACKENDS / "nvidia" / "include" / "cuda.h",
    "hip": BACKENDS / "amd" / "include" / "hip" / "hip_runtime_api.h",
}
SIGNATURES = {"cuda": cuda.SIGNATURES, "hip": hip.SIGNATURES}
SLOTS = (ctypes.c_int64 * 2)(7, -1)
MADE_UP = ctypes.create_string_buffer(b"hipErrorMadeUp")
POINTERS = (c_void_p * 2)(ctypes.addressof(SLOTS), ctypes.addressof(SLOTS) + 8)


def put(pointer: Any, value: int | bytes) -> None:
    pointer.contents.value = value


class Calls:
    """A driver's library: each function notes its arguments and gives `answers[name]`, a code, else succeeds."""

    def __init__(self, signatures: Mapping[str, Any], put_values: Mapping[str, int] = {}, **answers: int):
        self.signatures, self.put_values, self.answers = signatures, put_values, answers
        self.noted: list[tuple[Any, ...]] = []
        self.kept: list[Any] = []

    def library(self, **more: Any) -> SimpleNamespace:
        functions = {name: self.function(name, types) for name, types in self.signatures.items()}
        return SimpleNamespace(**functions, **more)

    def function(self, name: str, types: Any) -> Any:
        def called(*arguments: Any) -> int:
            self.noted.append((name, *(a for a in arguments if isinstance(a, int | bytes | None))))
            if name.startswith("cuGetError"):
                put(arguments[1], b"CUDA_ERROR_MADE_UP" if name.endswith("Name") else b"made up")
                return 0
            if name in self.put_values:
                put(arguments[0], self.put_values[name])
            return self.answers.get(name, 0)

        self.kept.append(ctypes.CFUNCTYPE(c_int, *types)(called))
        return self.kept[-1]

    def named(self, name: str) -> Iterator[tuple[Any, ...]]:
        return (call[1:] for call in self.noted if call[0] == name)


def cuda_driver(monkeypatch: pytest.MonkeyPatch, **answers: int) -> tuple[CudaDriver, Calls]:
    values = {"cuModuleLoadData": 0x100, "cuModuleGetFunction": 0xF00, "cuCtxGetCurrent": 0xC, "cuDeviceGet": 3}
    values |= {"cuDevicePrimaryCtxRetain": 0xCC, "cuOccupancyMaxActiveBlocksPerMultiprocessor": 5}
    if answers.pop("no_context", 0):
        del values["cuCtxGetCurrent"]
    calls = Calls(cuda.SIGNATURES, values, **answers)
    driver = CudaDriver(calls.library())
    monkeypatch.setattr(driver, "current_device", lambda: 3)
    return driver, calls


def hip_driver(**answers: int) -> tuple[HipDriver, Calls]:
    values = {"hipModuleLoadData": 0x100, "hipModuleGetFunction": 0xF00}
    values |= {"hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": 5}
    calls = Calls(hip.SIGNATURES, values, **answers)
    said = ctypes.CFUNCTYPE(c_void_p, c_int)(lambda code: ctypes.addressof(MADE_UP))
    return HipDriver(calls.library(hipGetErrorName=said, hipGetErrorString=said)), calls


def use_all(driver: CudaDriver | HipDriver) -> None:
    driver.load(b"\x7fELF", "kernel", 200_000)
    driver.resident(0xF00, 128, 0)
    driver.launch(0xF00, 1, 32, 0, 0, 0)


C_TYPES = {"unsigned int": ctypes.c_uint, "int": ctypes.c_int, "size_t": ctypes.c_size_t}
C_TYPES |= {"uint32_t": ctypes.c_uint}
HANDLE = r"CU(function|module|context|stream)|hip(Function|Module|Stream)_t"


@pytest.mark.parametrize(("vendor", "name"), [(v, n) for v, table in SIGNATURES.items() for n in table])
def test_signatures_are_those_of_the_header(vendor: str, name: str) -> None:
    if not HEADERS[vendor].exists():
        pytest.skip(f"this Triton has no {HEADERS[vendor].name}")
    declared = re.search(rf"(?:CUDAAPI|hipError_t) {name}\(([^)]*)\)", HEADERS[vendor].read_text())
    assert declared is not None
    parameters = [" ".join(p.split()) for p in declared[1].split(",")]
    types = SIGNATURES[vendor][name]
    assert len(parameters) == len(types)
    for parameter, type_ in zip(parameters, types, strict=True):
        spelled = parameter.removeprefix("const ").rpartition(" ")[0]
        if "*" in parameter or re.fullmatch(HANDLE, spelled):
            assert ctypes.sizeof(type_) == ctypes.sizeof(c_void_p), parameter
        else:  # devices and enumerations are int
            assert type_ is C_TYPES.get(spelled, c_int), parameter
            assert (spelled in C_TYPES) or not spelled.endswith("_t"), parameter


def test_constants_are_those_of_the_header() -> None:
    if not HEADERS["cuda"].exists():
        pytest.skip("this Triton has no cuda.h")
    text = HEADERS["cuda"].read_text()
    expected = {
        "CUDA_ERROR_OUT_OF_MEMORY": cuda.OUT_OF_MEMORY,
        "CUDA_ERROR_INVALID_CONTEXT": cuda.INVALID_CONTEXT,
        "CUDA_ERROR_INVALID_HANDLE": cuda.INVALID_HANDLE,
        "CUDA_ERROR_CONTEXT_IS_DESTROYED": cuda.CONTEXT_IS_DESTROYED,
        "CU_STREAM_CAPTURE_MODE_RELAXED": RELAXED,
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": cuda.MAX_DYNAMIC_SHARED_SIZE_BYTES,
        "CU_FUNC_CACHE_PREFER_SHARED": cuda.PREFER_SHARED,
    }
    for name, value in expected.items():
        found = re.search(rf"\b{name}\s*=\s*(0x[0-9a-f]+|\d+)", text)
        assert found is not None
        assert int(found[1], 0) == value


def test_cuda_loads_a_function_and_asks_for_much_shared_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, calls = cuda_driver(monkeypatch)
    assert driver.load(b"\x7fELF\0more", "kernel", 48 << 10) == 0xF00
    assert list(calls.named("cuModuleGetFunction")) == [(0x100, b"kernel")]
    assert not list(calls.named("cuFuncSetAttribute"))
    driver.load(b"\x7fELF", "kernel", 200_000)
    assert list(calls.named("cuFuncSetAttribute")) == [(0xF00, 8, 200_000)]
    assert driver.resident(0xF00, 128, 64) == 5


def test_cuda_launches_along_one_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, calls = cuda_driver(monkeypatch)
    arguments = ctypes.addressof(POINTERS)
    driver.launch(0xF00, (1 << 31) - 1, 256, 4096, 0x57, arguments)
    assert list(calls.named("cuLaunchKernel")) == [(0xF00, (1 << 31) - 1, 1, 1, 256, 1, 1, 4096, 0x57, arguments, None)]


def test_hip_loads_and_launches_alike() -> None:
    driver, calls = hip_driver()
    arguments = ctypes.addressof(POINTERS)
    assert driver.load(b"\x7fELF", "kernel", 100_000) == 0xF00
    assert driver.resident(0xF00, 128, 64) == 5
    driver.launch(0xF00, 9, 256, 4096, 0x57, arguments)
    assert list(calls.named("hipModuleLaunchKernel")) == [(0xF00, 9, 1, 1, 256, 1, 1, 4096, 0x57, arguments, None)]


def test_hip_launches_with_all_the_shared_memory_there_is() -> None:
    """gfx950 has 160 KiB: HIP has no function that asks for more than 64, and Triton's own launcher asks for none."""
    driver, calls = hip_driver()
    driver.launch(driver.load(b"\x7fELF", "kernel", 160 << 10), 1, 256, 160 << 10, 0, ctypes.addressof(POINTERS))
    ((*_, shared, _, _, _),) = calls.named("hipModuleLaunchKernel")
    assert shared == 160 << 10


def test_a_thread_without_a_context_gets_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, calls = cuda_driver(monkeypatch, no_context=1, cuLaunchKernel=cuda.INVALID_CONTEXT)
    with pytest.raises(SetupError, match="launching a kernel: CUDA_ERROR_MADE_UP: made up"):
        driver.launch(0xF00, 1, 32, 0, 0, 0)
    assert len(list(calls.named("cuLaunchKernel"))) == 2
    assert list(calls.named("cuDeviceGet")) == [(3,)]
    assert list(calls.named("cuDevicePrimaryCtxRetain")) == [(3,)]
    assert list(calls.named("cuCtxSetCurrent")) == [(0xCC,)]


def test_in_another_librarys_context_code_is_loaded_into_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, calls = cuda_driver(monkeypatch)
    driver.load(b"\x7fELF", "kernel", 0)
    driver.resident(0xF00, 128, 64)
    names = [name for name, *_ in calls.noted]
    for work in ("cuModuleLoadData", "cuModuleGetFunction", "cuOccupancyMaxActiveBlocksPerMultiprocessor"):
        sets = [call[1] for call in calls.noted[: names.index(work)] if call[0] == "cuCtxSetCurrent"]
        assert sets[-1] == 0xCC, work
    assert list(calls.named("cuCtxSetCurrent")) == [(0xCC,), (0xC,)] * 2
    assert list(calls.named("cuDevicePrimaryCtxRetain")) == [(3,)]


@pytest.mark.parametrize("answer", sorted(cuda.OF_ANOTHER_CONTEXT))
def test_a_launch_in_another_librarys_context_is_tried_in_the_devices_own(
    monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    driver, calls = cuda_driver(monkeypatch)
    answers, launch = [answer, 0], driver._launch
    monkeypatch.setattr(driver, "_launch", lambda *of: (launch(*of), answers.pop(0))[1])
    driver.launch(0xF00, 1, 32, 0, 0, 0)
    assert [name for name, *_ in calls.noted if name in ("cuLaunchKernel", "cuCtxSetCurrent")] == [
        "cuLaunchKernel", "cuCtxSetCurrent", "cuLaunchKernel", "cuCtxSetCurrent",
    ]  # fmt: skip
    assert list(calls.named("cuCtxSetCurrent")) == [(0xCC,), (0xC,)]


def test_in_the_devices_own_context_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, calls = cuda_driver(monkeypatch)
    calls.put_values = {**calls.put_values, "cuCtxGetCurrent": 0xCC}
    driver.load(b"\x7fELF", "kernel", 0)
    driver.launch(0xF00, 1, 32, 0, 0, 0)
    assert not list(calls.named("cuCtxSetCurrent"))


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
@pytest.mark.parametrize("failing", [0, 719])
def test_loading_leaves_graphs_alone_that_other_threads_capture(
    monkeypatch: pytest.MonkeyPatch, vendor: str, failing: int
) -> None:
    prefix = {"cuda": "cu", "hip": "hip"}[vendor]
    load = f"{prefix}ModuleLoadData"
    answers = {load: failing}
    driver, calls = cuda_driver(monkeypatch, **answers) if vendor == "cuda" else hip_driver(**answers)
    modes, thread = [], [0]  # the mode of a thread that nobody has told anything

    def exchanged(mode: Any) -> int:
        modes.append(mode._obj.value)
        mode._obj.value, thread[0] = thread[0], mode._obj.value
        calls.noted.append(("exchange",))
        return 0

    monkeypatch.setattr(driver, "_exchange_capture_mode", exchanged)
    if failing:
        with pytest.raises(SetupError):
            driver.load(b"\x7fELF", "kernel", 0)
    else:
        driver.load(b"\x7fELF", "kernel", 0)
    assert modes == [RELAXED, 0]
    names = [name for name, *_ in calls.noted]
    assert names.index("exchange") < names.index(load) < len(names) - 1 - names[::-1].index("exchange")


@pytest.mark.parametrize("name", sorted(set(cuda.SIGNATURES) - {"cuGetErrorName", "cuGetErrorString"}))
@pytest.mark.parametrize(("code", "kind"), [(700, SetupError), (2, OutOfMemoryError)])
def test_every_code_of_cuda_is_checked(
    monkeypatch: pytest.MonkeyPatch, name: str, code: int, kind: type[SetupError]
) -> None:
    driver, _ = cuda_driver(monkeypatch, no_context=1, **{name: code})
    with pytest.raises(SetupError, match="CUDA_ERROR_MADE_UP: made up") as raised:
        use_all(driver)
    assert type(raised.value) is kind


@pytest.mark.parametrize("name", sorted(hip.SIGNATURES))
@pytest.mark.parametrize(("code", "kind"), [(719, SetupError), (2, OutOfMemoryError)])
def test_every_code_of_hip_is_checked(name: str, code: int, kind: type[SetupError]) -> None:
    driver, _ = hip_driver(**{name: code})
    with pytest.raises(SetupError, match="hipErrorMadeUp") as raised:
        use_all(driver)
    assert type(raised.value) is kind


def test_a_missing_driver_is_said() -> None:
    with pytest.raises(SetupError, match=r"NVIDIA's driver is not installed: there is no libvk-not-there\.so"):
        open_library(["libvk-not-there.so"], "NVIDIA's driver")


def test_a_driver_without_a_function_is_refused() -> None:
    with pytest.raises(SetupError, match="no function cuGetErrorName"):
        CudaDriver(SimpleNamespace())
