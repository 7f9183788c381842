"""Print the devices of one vendor's driver as JSON.

It runs as a script in a process of its own, on the standard library alone: a driver that hangs, crashes or keeps its
state over a fork then does no harm. `python probe.py nvidia|amd`; an empty list where there is no driver or no device.
"""

from __future__ import annotations

import ctypes
import json
import sys

NVIDIA_LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
AMD_LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "amdhip64.dll")

# CUdevice_attribute of cuda.h.
NVIDIA_ATTRIBUTES = {
    "block_threads": 1,
    "block_shared_unasked": 8,
    "warp": 10,
    "block_registers": 12,
    "clock_khz": 13,
    "multiprocessors": 16,
    "integrated": 18,
    "memory_clock_khz": 36,
    "memory_bits": 37,
    "level_2": 38,
    "threads": 39,
    "major": 75,
    "minor": 76,
    "shared": 81,
    "registers": 82,
    "block_shared": 97,
    "blocks": 106,
    "shared_reserved": 111,
}
# Where fields of hipDeviceProp_tR0600 stand, hip_runtime_api.h of ROCm 6: bytes from the start, and kind.
AMD_PROPERTIES = {
    "memory": (288, ctypes.c_size_t),
    "block_shared": (296, ctypes.c_size_t),
    "warp": (308, ctypes.c_int),
    "block_threads": (320, ctypes.c_int),
    "clock_khz": (348, ctypes.c_int),
    "multiprocessors": (388, ctypes.c_int),
    "level_2": (616, ctypes.c_int),
}
AMD_NAME, AMD_ARCHITECTURE, AMD_TEXT = 0, 1160, 256
AMD_BYTES = 4096  # 1472 are used


def nvidia_devices() -> list[dict[str, object]]:
    library = _library(NVIDIA_LIBRARIES)
    if library is None or library.cuInit(0) != 0:
        return []
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [_nvidia_device(library, number) for number in range(count.value)]


def _nvidia_device(library: ctypes.CDLL, number: int) -> dict[str, object]:
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(device), number)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    found: dict[str, object] = {"name": _text(name.value), "memory": memory.value}
    for field, attribute in NVIDIA_ATTRIBUTES.items():
        value = ctypes.c_int()
        if library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0:
            found[field] = value.value
    return found


def amd_devices() -> list[dict[str, object]]:
    library = _library(AMD_LIBRARIES)
    if library is None or library.hipInit(0) != 0:
        return []
    count = ctypes.c_int()
    if library.hipGetDeviceCount(ctypes.byref(count)) != 0:
        return []
    return [_amd_device(library, number) for number in range(count.value)]


def _amd_device(library: ctypes.CDLL, number: int) -> dict[str, object]:
    properties = ctypes.create_string_buffer(AMD_BYTES)
    if library.hipGetDevicePropertiesR0600(properties, number) != 0:
        return {}
    texts = {"name": AMD_NAME, "architecture": AMD_ARCHITECTURE}
    found: dict[str, object] = {
        field: _text(properties.raw[start : start + AMD_TEXT].split(b"\0")[0]) for field, start in texts.items()
    }
    return found | {field: kind.from_buffer(properties, start).value for field, (start, kind) in AMD_PROPERTIES.items()}


def _library(names: tuple[str, ...]) -> ctypes.CDLL | None:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _text(name: bytes) -> str:
    return "".join(letter for letter in name.decode(errors="replace") if letter.isprintable())


if __name__ == "__main__":
    print(json.dumps({"nvidia": nvidia_devices, "amd": amd_devices}[sys.argv[1]]()))
