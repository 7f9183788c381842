"""The project's table of devices, and what a broken one is told."""

import copy
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest

from vkernels.ir.errors import FileError, OptionError
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.targets import known_targets, limits_of, target_named
from vkernels.targets.table import TABLE, known_sources, read_table

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "targets.json"
RAW = json.loads(TABLE.read_text())


def written(folder, table):
    path = folder / "devices.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


def refused(folder, table, *words):
    path = written(folder, table)
    with pytest.raises(FileError) as error:
        read_table(path)
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert message.isprintable()
    for word in words:
        assert word in message, message


def changed(key, path, value):
    """The table with one field of one device changed; `...` takes it away."""
    table = copy.deepcopy(RAW)
    place = next(device for device in table["devices"] if device["key"] == key)
    *outer, last = path.split(".")
    for name in outer:
        place = place[int(name) if name.isdecimal() else name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return table


def test_known_devices_are_those_of_the_facts_and_the_a30():
    if not FACTS.exists():
        pytest.skip(f"{FACTS} is not here")
    facts = {device["id"]: device for device in json.loads(FACTS.read_text())["devices"]}
    assert set(known_targets()) == {*facts, "a30-24"}
    for key, fact in facts.items():
        target = known_targets()[key]
        assert target.rates.clock_mhz == fact["clock_mhz"]
        if fact["vendor"] == "nvidia":
            assert target.architecture == f"sm_{fact['triton_target']['arch']}"
            assert target.multiprocessors == fact["sm_count"]
            assert target.sizes.block_shared == fact["smem_per_block_optin"]
            assert target.memory == fact["dram_bytes"]
        else:
            assert target.architecture == fact["triton_target"]["arch"]
            parts = 2 if key == "mi250x" or "WGP" in fact["scheduling_unit"] else 1
            assert target.multiprocessors * parts == fact["cu_count"]


def test_every_figure_has_a_source_that_is_said():
    for target in known_targets().values():
        sourced = {
            "multiprocessors",
            "memory",
            "level_2",
            "cache",
            "architecture",
            "clock_mhz",
            "memory_gb_s",
            "registers",
        }
        assert sourced <= set(target.sources), target.key
        for names in target.sources.values():
            assert names
            assert set(names) <= set(known_sources())


def test_limits_are_a_programs_and_tell_gpus_from_cpus():
    h100 = limits_of(target_named("h100-sxm5-80"))
    assert (h100.registers, h100.register_bytes, h100.threads, h100.warp) == (255, 4, 1024, 32)
    assert (h100.shared, h100.multiprocessors) == (232448, 132)
    mi300x = limits_of(target_named("mi300x"))
    assert (mi300x.warp, mi300x.shared, mi300x.cache) == (64, 65536, 256 << 20)
    assert all(limits_of(target).warp > 1 for target in known_targets().values())


def test_a_multiprocessor_of_rdna_is_a_pair_of_compute_units():
    target = target_named("rx7900xtx")
    assert target.multiprocessors == 48
    assert target.sizes.shared == 2 * target.sizes.block_shared


def test_slices_say_what_they_get():
    slices = {slice.name: slice for slice in target_named("h100-sxm5-80").slices}
    one = slices["1g.10gb"]
    assert (one.kind, one.most, one.multiprocessors) == ("mig", 7, 16)
    assert (one.memory_share, one.cache_share) == (Fraction(1, 8), Fraction(1, 8))
    assert slices["7g.80gb"].cache_share == 1
    assert {slice.kind for slice in target_named("mi300x").slices} == {"partition"}


def test_targets_can_be_kept_in_sets():
    assert len({*known_targets().values()}) == len(known_targets())


def test_an_unknown_target_is_told_which_there_are():
    with pytest.raises(OptionError, match=r"no target 'h100'; there are t4, .*h100-sxm5-80"):
        target_named("h100")


def test_the_table_is_read_as_it_is(tmp_path):
    assert read_table(written(tmp_path, RAW)) == dict(known_targets())


WRONG = {
    "a text for a number": ("multiprocessors", "132", "multiprocessors", "whole number"),
    "a fraction for a count": ("multiprocessors", 1.5, "multiprocessors", "whole number"),
    "a switch for a number": ("memory", True, "memory", "whole number"),
    "nothing for a number": ("memory", None, "memory", "whole number"),
    "no multiprocessors": ("multiprocessors", 0, "multiprocessors", "whole number"),
    "less than nothing": ("cache", -1, "cache", "whole number"),
    "too large a number": ("memory", 1 << 60, "memory", "whole number"),
    "a rate that is none": ("rates.clock_mhz", 0, "rates.clock_mhz", "above 0"),
    "an infinite rate": ("rates.memory_gb_s", float("inf"), "rates.memory_gb_s", "above 0"),
    "a rate that is no number": ("rates.memory_gb_s", float("nan"), "rates.memory_gb_s", "above 0"),
    "a field that is missing": ("memory", ..., "`memory` is missing"),
    "sizes that are missing": ("sizes", ..., "`sizes` is missing"),
    "a size that is missing": ("sizes.warps", ..., "sizes", "`warps` is missing"),
    "rates that are missing": ("rates", ..., "`rates` is missing"),
    "an unknown field": ("colour", "green", "no field 'colour'"),
    "an unknown size": ("sizes.unified", True, "no field 'unified'"),
    "sizes in a list": ("sizes", [1, 2], "expected a table"),
    "another vendor": ("vendor", "intel", "expected nvidia, amd or cpu"),
    "a CPU": ("vendor", "cpu", "sizes: there is no field"),
    "a vendor in a list": ("vendor", ["nvidia"], "expected nvidia, amd or cpu"),
    "no vendor": ("vendor", ..., "vendor", "missing"),
    "the other vendor": ("vendor", "amd", "sizes", "no field"),
    "another's architecture": ("architecture", "gfx942", "architecture", "sm_"),
    "a key with a slash": ("key", "../h100", "lower-case"),
    "a key that moves the cursor": ("key", "h100\x1b[2J", "key", "printable"),
    "a name that moves the cursor": ("name", "H100\x1b]0;gone\x07", "name", "printable"),
    "a name without end": ("name", "H" * 5000, "name", "1000 characters"),
    "an empty name": ("name", "", "name", "printable"),
    "an odd warp": ("sizes.warp", 33, "sizes.warp", "32 or 64"),
    "more threads than warps hold": ("sizes.warps", 16, "sizes.block_threads", "do not fit"),
    "more shared memory than there is": ("sizes.block_shared", 300000, "sizes.block_shared", "more than all"),
    "registers that cannot be dealt": ("sizes.registers", 65537, "sizes.registers", "multiple"),
    "a thread with all registers": ("sizes.thread_registers", 60000, "sizes.thread_registers", "partition"),
    "a block with too many registers": ("sizes.block_registers", 70000, "sizes.block_registers", "more than all"),
    "a cache larger than memory": ("cache", 1 << 49, "cache", "larger than the memory"),
    "a slice with too much": ("slices.0.multiprocessors", 133, "slices.1g.10gb", "more than all 132"),
    "too many slices": ("slices.0.most", 9, "slices.1g.10gb", "more than all 132"),
    "a slice with too much memory": ("slices.5.memory", 90 << 30, "slices.7g.80gb", "more than the device's"),
    "a share above one": ("slices.0.memory_share", "9/8", "memory_share", "share such as"),
    "a share of nothing": ("slices.0.memory_share", "1/0", "memory_share", "share such as"),
    "a share in decimals": ("slices.0.cache_share", 0.125, "cache_share", "share such as"),
    "a slice of another kind": ("slices.0.kind", "mps", "kind", "expected mig or partition"),
    "a slice twice": ("slices.1.name", "1g.10gb", "slices", "twice"),
    "slices in a table": ("slices", {}, "slices", "expected a list"),
    "a source that is none": ("sources.memory", ["NOWHERE"], "no source 'NOWHERE'"),
    "a slice's source that is none": ("slices.0.sources", ["NOWHERE"], "no source 'NOWHERE'"),
    "a source of nothing": ("sources.colour", ["DER"], "no field 'colour'"),
    "sources in a text": ("sources.memory", "DER", "sources.memory", "expected a list"),
    "an unverified field that is none": ("unverified", ["colour"], "no field 'colour'"),
    "half a place": ("green_contexts", {"least": 8}, "green_contexts", "`multiple` is missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_entry_is_refused_by_name(tmp_path, name):
    path, value, *words = WRONG[name]
    refused(tmp_path, changed("h100-sxm5-80", path, value), *words)


def test_places_of_slices_are_pairs(tmp_path):
    refused(tmp_path, changed("a100-sxm4-80", "slices.0.places", [[0, 1, 2]]), "slices.0.places.0", "2 items")
    refused(tmp_path, changed("a100-sxm4-80", "slices.0.places", [[0, -1]]), "places")


def test_amds_threads_cannot_have_more_registers_than_a_simd(tmp_path):
    refused(tmp_path, changed("mi300x", "sizes.thread_registers", 513), "mi300x", "thread_registers")
    refused(tmp_path, changed("mi300x", "sizes.unified", 1), "sizes.unified", "true or false")


BROKEN = {
    "nothing": ("", "no JSON"),
    "half a file": (json.dumps(RAW)[:5000], "no JSON"),
    "a list": ("[]", "schema_version"),
    "another version": (json.dumps({**RAW, "schema_version": 2}), "schema_version"),
    "no devices": (json.dumps({"schema_version": 1, "sources": {}}), "devices"),
    "no sources": (json.dumps({"schema_version": 1, "devices": []}), "sources"),
    "devices that are none": (json.dumps({**RAW, "devices": [7]}), "devices.0"),
    "a device twice": (json.dumps({**RAW, "devices": RAW["devices"][:1] * 2}), "t4: is there twice"),
    "a field twice": ('{"schema_version": 1, "schema_version": 1}', "'schema_version' is there twice"),
    "deep lists": ("[" * 100_000, "no JSON"),
    "a number of many digits": ('{"schema_version": ' + "9" * 5000 + "}", "no JSON"),
    "too large a file": (" " * (5 << 20), "larger than"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(tmp_path, name):
    text, word = BROKEN[name]
    refused(tmp_path, text, word)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xff"}')
    for name, word in {"latin.json": "UTF-8", "absent.json": "no file", ".": "no file", "a\0b": "no file"}.items():
        with pytest.raises(FileError, match=word):
            read_table(tmp_path / name)


def test_damage_anywhere_is_a_file_error_or_harmless(tmp_path):
    """Bytes changed at random: the table reads, or one message says why not."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    small = json.dumps({**RAW, "devices": RAW["devices"][:2] + RAW["devices"][-1:]}).encode()
    path = tmp_path / "devices.json"
    messages = []
    for _ in range(200):
        damaged = bytearray(small)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            read_table(path)
        except FileError as error:
            messages.append(str(error))
    assert messages
    assert all(message.startswith(str(path)) for message in messages)


def test_kinds_of_sizes_follow_vendors():
    kinds = {(target.vendor, type(target.sizes)) for target in known_targets().values()}
    assert kinds == {("nvidia", NvidiaSizes), ("amd", AmdSizes)}
