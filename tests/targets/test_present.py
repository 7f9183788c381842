"""The devices of this machine, with drivers that answer, lie, hang and crash."""

import shutil
import subprocess
import sys
import time

import pytest

from vkernels.targets import known_targets, limits_of, present_targets
from vkernels.targets.present import PROBE, gpu_target

# What a driver says of an H100 (SXM), and of its smallest MIG instance.
H100 = {
    "name": "NVIDIA H100 80GB HBM3", "memory": 84942979072, "block_threads": 1024, "block_shared_unasked": 49152,
    "warp": 32, "block_registers": 65536, "clock_khz": 1980000, "multiprocessors": 132, "memory_clock_khz": 2619000,
    "memory_bits": 5120, "level_2": 52428800, "threads": 2048, "major": 9, "minor": 0, "shared": 233472,
    "registers": 65536, "block_shared": 232448, "blocks": 32, "shared_reserved": 1024,
}  # fmt: skip
MIG = {
    **H100,
    "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "memory": 9 << 30,
    "multiprocessors": 16,
    "level_2": 6553600,
}
MI300X = {
    "name": "AMD Instinct MI300X", "architecture": "gfx942:sramecc+:xnack-", "memory": 206141652992,
    "block_shared": 65536, "warp": 64, "block_threads": 1024, "clock_khz": 2100000, "multiprocessors": 304,
    "level_2": 4194304,
}  # fmt: skip


def test_the_cpu_is_always_there(monkeypatch):
    monkeypatch.setattr("vkernels.targets.present.known_cpu_rates", lambda: None)
    cpu = present_targets()[-1]
    assert (cpu.key, cpu.vendor, cpu.unverified) == ("cpu", "cpu", ("rates",))
    assert limits_of(cpu).warp == 1
    assert cpu.name
    assert cpu.name.isprintable()


def test_looking_imports_no_torch():
    code = "import sys; from vkernels.targets import present_targets; present_targets(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert not {"torch", "triton"} & set(loaded.split())


def test_a_known_device_is_recognised():
    target = gpu_target("nvidia", "nvidia:0", H100)
    known = known_targets()["h100-sxm5-80"]
    assert (target.key, target.like, target.name) == ("nvidia:0", "h100-sxm5-80", "NVIDIA H100 80GB HBM3")
    assert limits_of(target) == limits_of(known)
    assert target.sizes == known.sizes
    assert target.slices == known.slices


def test_a_mig_instance_has_the_limits_that_its_driver_says():
    target = gpu_target("nvidia", "nvidia:0", MIG)
    assert target.like in known_targets()
    assert (target.multiprocessors, target.memory, target.cache) == (16, 9 << 30, 6553600)
    assert limits_of(target).multiprocessors == 16
    assert target.slices == ()
    whole = known_targets()[target.like]
    share = 16 / whole.multiprocessors * 1980 / whole.rates.clock_mhz
    assert target.rates.float32_tflops == pytest.approx(whole.rates.float32_tflops * share)
    assert target.rates.memory_gb_s == pytest.approx(2 * 2619e6 * 640 / 1e9)
    assert {"register_unit", "float32_tflops"} <= set(target.unverified)


def test_a_whole_mig_instance_is_no_device_to_be_cut():
    assert gpu_target("nvidia", "nvidia:0", {**H100, "name": "NVIDIA H100 80GB HBM3 MIG 7g.80gb"}).slices == ()


def test_an_unknown_architecture_takes_what_is_unsaid_from_the_last_before_it():
    target = gpu_target("nvidia", "nvidia:0", {**H100, "major": 9, "minor": 9, "threads": 1024, "blocks": 7})
    assert target.architecture == "sm_99"
    assert known_targets()[target.like].architecture == "sm_90"
    assert (target.sizes.warps, target.sizes.blocks) == (32, 7)
    assert target.unverified


def test_an_amd_device_is_recognised():
    target = gpu_target("amd", "amd:0", MI300X)
    assert (target.architecture, target.like, target.warp) == ("gfx942", "mi300x", 64)
    assert limits_of(target).cache == limits_of(known_targets()["mi300x"]).cache
    assert target.slices


@pytest.mark.parametrize(
    "lie",
    [
        {"multiprocessors": 0},
        {"memory": -1},
        {"memory": "much"},
        {"warp": 0},
        {"name": None},
        {"block_shared": None},
        {"shared": []},
        {"clock_khz": "fast", "multiprocessors": 7},
        {"major": "x"},
    ],
)
def test_a_driver_that_makes_no_sense_has_no_such_device(lie):
    answers = {"nvidia": ({**H100, **lie}, {}), "amd": ({**MI300X, "architecture": "new"},)}
    for vendor, said in ((vendor, said) for vendor, given in answers.items() for said in given):
        with pytest.raises((KeyError, TypeError, ValueError, ZeroDivisionError)):
            gpu_target(vendor, f"{vendor}:0", said)


CUDA = """
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned flags) { INIT; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Fake\\x1b[2J GPU", length); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)16 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 1: *value = 1024; break;      case 8: *value = 49152; break;    case 10: *value = 32; break;
        case 12: *value = 65536; break;    case 13: *value = 1500000; break; case 16: *value = 10 + device; break;
        case 36: *value = 5000000; break;  case 37: *value = 256; break;     case 38: *value = 4 << 20; break;
        case 39: *value = 1024; break;     case 75: *value = 7; break;       case 76: *value = 5; break;
        case 81: *value = 65536; break;    case 82: *value = 65536; break;   case 97: *value = 65536; break;
        default: return 1;
    }
    return 0;
}
"""
HIP = """
#include <string.h>
#include <stdint.h>
int hipInit(unsigned flags) { return 0; }
int hipGetDeviceCount(int *count) { *count = 1; return 0; }
int hipGetDevicePropertiesR0600(char *properties, int device) {
    memset(properties, 0, 1472);
    strcpy(properties, "AMD Radeon RX 7900 XTX");
    *(uint64_t *)(properties + 288) = 25753026560ull;
    *(uint64_t *)(properties + 296) = 65536;
    *(int *)(properties + 308) = 32;
    *(int *)(properties + 320) = 1024;
    *(int *)(properties + 348) = 2500000;
    *(int *)(properties + 388) = 48;
    *(int *)(properties + 616) = 6 << 20;
    strcpy(properties + 1160, "gfx1100");
    return 0;
}
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts a library where a vendor's driver would be."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a driver with")

    def make(name, source):
        (tmp_path / "driver.c").write_text(source)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-w", "-o", str(tmp_path / name), str(tmp_path / "driver.c")],
            check=True,
            timeout=60,
        )
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    return make


def test_nvidias_driver_is_asked(driver):
    driver("libcuda.so.1", CUDA.replace("INIT", ""))
    first, second, *_, cpu = present_targets()
    assert (first.key, first.name, first.architecture) == ("nvidia:0", "Fake[2J GPU", "sm_75")
    assert (first.multiprocessors, second.multiprocessors) == (10, 11)
    assert first.rates.memory_gb_s == 320
    assert first.sizes == known_targets()["t4"].sizes
    assert cpu.key == "cpu"


def test_amds_driver_is_asked(driver):
    driver("libamdhip64.so", HIP)
    first, *_ = present_targets()
    assert (first.key, first.like, first.multiprocessors) == ("amd:0", "rx7900xtx", 48)


@pytest.mark.parametrize("init", ["return 100", "abort()", "*(volatile int *)0 = 0", 'write(1, "[{", 2); _exit(0)'])
def test_a_driver_that_fails_or_crashes_has_no_devices(driver, init):
    driver("libcuda.so.1", CUDA.replace("INIT", init))
    assert [target.key for target in present_targets() if target.vendor == "nvidia"] == []


def test_a_driver_that_hangs_is_left_behind(driver):
    driver("libcuda.so.1", CUDA.replace("INIT", "sleep(600)"))
    begun = time.monotonic()
    assert [target.key for target in present_targets(patience=0.5) if target.vendor == "nvidia"] == []
    assert time.monotonic() - begun < 60


def test_the_probe_runs_on_the_standard_library_alone():
    for vendor in ("nvidia", "amd"):
        run = subprocess.run([sys.executable, "-I", "-S", str(PROBE), vendor], capture_output=True, timeout=60)
        assert run.returncode == 0
        assert run.stdout.startswith(b"[")
