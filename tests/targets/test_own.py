"""Devices of one's own, from TOML."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from vkernels.ir.errors import FileError
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.targets import GreenContexts, PeakRates, Slice, Target, known_targets, limits_of, load_targets

WHOLE = """
[toy]
name = "Toy"
vendor = "nvidia"
architecture = "sm_80"
multiprocessors = 2
memory = 1073741824
level_2 = 1048576
cache = 1048576

[toy.sizes]
warp = 32
warps = 16
blocks = 8
barriers = 0
partitions = 4
registers = 32768
register_unit = 256
shared = 65536
shared_reserved = 1024
shared_unit = 128
block_threads = 512
block_registers = 32768
block_shared = 64512
block_shared_unasked = 49152
thread_registers = 255

[toy.rates]
clock_mhz = 1000
memory_gb_s = 100.5
float32_tflops = 1

[[toy.slices]]
name = "half"
kind = "mig"
most = 2
multiprocessors = 1
memory_share = "1/2"
"""


@pytest.fixture
def load(tmp_path):
    def run(text):
        path = tmp_path / "mine.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_targets(path)

    return run


def test_a_device_can_be_described_whole(load):
    (toy,) = load(WHOLE).values()
    assert (toy.key, toy.name, toy.like) == ("toy", "Toy", None)
    limits = limits_of(toy)
    assert (limits.shared, limits.threads, limits.multiprocessors) == (64512, 512, 2)
    assert toy.slices[0].memory_share * 2 == 1
    assert toy.rates.float16_tflops is None


def test_a_device_can_start_from_a_known_one(load):
    (mine,) = load('[mine]\nlike = "a100-sxm4-80"\nmultiprocessors = 98\n[mine.sizes]\nshared = 168000').values()
    a100 = known_targets()["a100-sxm4-80"]
    assert (mine.key, mine.like, mine.multiprocessors) == ("mine", "a100-sxm4-80", 98)
    assert mine.sizes.shared == 168000
    assert mine.sizes.warps == a100.sizes.warps
    assert mine.rates == a100.rates
    assert mine.green_contexts == a100.green_contexts
    assert (mine.slices, mine.sources, mine.unverified, mine.note) == ((), {}, (), "")


@pytest.mark.parametrize("key", known_targets())
def test_every_known_device_can_be_started_from(load, key):
    (mine,) = load(f'[mine]\nlike = "{key}"').values()
    assert limits_of(mine) == limits_of(known_targets()[key])


def test_a_file_can_hold_many(load):
    assert [*load('[one]\nlike = "t4"\n[two]\nlike = "mi300x"')] == ["one", "two"]


LIKE = '[mine]\nlike = "t4"\n'
REFUSED = {
    "nothing": ("", "describes no device"),
    "no TOML": ("[mine", "is no TOML"),
    "bytes that are no text": (b'[mine]\nname = "\xff"', "UTF-8"),
    "a field outside a table": ('like = "t4"', "like: expected a table of fields"),
    "the key of a known device": ('[t4]\nlike = "t4"', "t4: is the key of a known device"),
    "like an unknown device": ('[mine]\nlike = "h100"', "mine: like: expected the key of a known device: t4"),
    "like a number": ("[mine]\nlike = 4", "mine: like: expected the key"),
    "like a list": ('[mine]\nlike = ["t4"]', "mine: like: expected the key"),
    "a key inside": (LIKE + 'key = "other"', "the name of the table is the key"),
    "a key with spaces": ('["my card"]\nlike = "t4"', "my card: key: expected lower-case"),
    "a key that moves the cursor": ('["\\u001b[2J"]\nlike = "t4"', "key"),
    "an unknown field": (LIKE + "sm_count = 4", "no field 'sm_count'"),
    "an unknown size": (LIKE + "[mine.sizes]\nlds = 4", "sizes: there is no field 'lds'"),
    "a date": (LIKE + "memory = 2020-01-01", "memory: expected a whole number"),
    "an infinite rate": (LIKE + "[mine.rates]\nclock_mhz = inf", "rates.clock_mhz: expected a number above 0"),
    "no number": (LIKE + "[mine.rates]\nclock_mhz = nan", "rates.clock_mhz: expected a number above 0"),
    "sizes that are a number": (LIKE + "sizes = 4", "sizes: expected a table"),
    "rates in a list": (LIKE + "rates = [1]", "rates: expected a table"),
    "the other vendor": (LIKE + 'vendor = "amd"', "sizes: there is no field"),
    "another's architecture": (LIKE + 'architecture = "gfx942"', "architecture: expected"),
    "sizes that contradict": (LIKE + "[mine.sizes]\nblock_shared = 70000", "sizes.block_shared: 70000 bytes"),
    "half a device": ('[mine]\nname = "Mine"\nvendor = "nvidia"', "mine: the field `sizes` is missing"),
    "a table twice": ("[mine]\n[mine]", "is no TOML"),
    "deep lists": ("a = " + "[" * 50_000, "is no TOML"),
    "too large a file": ("#" * (5 << 20), "larger than"),
    "a control character": (LIKE + 'name = "a\\u0007b"', "name: expected a printable text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_clear_message(load, tmp_path, name):
    text, words = REFUSED[name]
    with pytest.raises(FileError) as error:
        load(text)
    message = str(error.value)
    assert message.startswith(str(tmp_path / "mine.toml"))
    assert words in message
    assert message.isprintable()


@pytest.mark.parametrize("line", [line for line in WHOLE.splitlines() if "=" in line and "half" not in line][:20])
def test_no_field_of_a_whole_device_can_be_left_out(load, line):
    with pytest.raises(FileError, match="missing"):
        load(WHOLE.replace(line + "\n", "", 1))


def test_a_file_that_is_none_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent.toml"):
        with pytest.raises(FileError, match="is no file"):
            load_targets(path)


def test_the_documented_file_is_one(load):
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    (mine,) = load(page.split("```toml\n")[1].split("```")[0]).values()
    assert (mine.key, mine.like, mine.multiprocessors) == ("our-a100", "a100-sxm4-80", 98)


def test_the_documentation_names_every_field():
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    text = re.sub("```.*?```", "", page, flags=re.DOTALL)
    documented = {word for words in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", words)}
    for kind in (Target, NvidiaSizes, AmdSizes, PeakRates, Slice, GreenContexts):
        assert {field.name for field in fields(kind)} <= documented | {"key"}, kind
