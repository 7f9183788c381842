"""What bundles differ in, and which of them can be one: `vk bundle diff` and `vk bundle merge`."""

import json
import struct

import msgspec
import numpy as np
import pytest

import vkernels as vk
from tests.commands.conftest import run_vk  # noqa: F401 (a fixture)
from vkernels.bundles.bundle import content_name, open_bundle, write_bundle
from vkernels.bundles.compare import Difference, Part, differences
from vkernels.bundles.manifest import FORMAT
from vkernels.bundles.merge import merged

SCALE = "scale x=float32, out=float32, factor=f64"
SOFTMAX = "softmax x=float32, out=float32"


@pytest.fixture
def made(built, tmp_path):
    """Writes a bundle: `kernels`, else all; a change of each piece of code; files in place of others."""

    def write(name, kernels=None, code=lambda code: code, files=None, **changes):
        manifest, there = built
        chosen = [each for each in manifest.kernels if kernels is None or each.name in kernels]
        changed = tuple(
            msgspec.structs.replace(each, **changes, variants=of_codes(each.variants, code)) for each in chosen
        )
        write_bundle(tmp_path / name, msgspec.structs.replace(manifest, kernels=changed), {**there, **(files or {})})
        return open_bundle(tmp_path / name, runs=False)

    return write


def of_codes(variants, change):
    return tuple(
        msgspec.structs.replace(each, codes=tuple(new for code in each.codes if (new := change(code)) is not None))
        for each in variants
    )


def replanned(built, made, name, role="shape", target="cpu:x86-64-v2", **decisions):
    """A bundle in which the code for a role and target has a plan with these decisions."""
    manifest, files = built
    plans = {
        code.plan: msgspec.json.encode(json.loads(files[code.plan]) | decisions)
        for code in manifest.codes if (code.role, code.target) == (role, target) and not code.same
    }  # fmt: skip
    names = {old: content_name("plans", new, "json") for old, new in plans.items()}

    def change(code):
        is_meant = (code.role, code.target) == (role, target) and not code.same
        return msgspec.structs.replace(code, plan=names[code.plan]) if is_meant else code

    return made(name, code=change, files={names[old]: new for old, new in plans.items()})


def test_the_same_content_is_the_same(made):
    assert differences(made("one.vkb"), made("other.vkb")) == ()


def test_each_change_is_named(built, made):
    whole = made("whole.vkb")
    changes = {
        "parameters": ({"parameters": ()}, "other parameters"),
        "source": ({"source": "0" * 64}, "the kernel's text has changed"),
        "deterministic": ({"deterministic": True}, "whether it is deterministic"),
    }
    for fields, said in changes.values():
        other = made("other.vkb", kernels=["scale"], **fields)
        assert differences(whole, other) == (
            Difference("changed", "scale", parts=(Part(said),)), Difference("removed", "softmax"),
        )  # fmt: skip


def test_code_that_is_gone_or_new_is_named_by_sizes_and_target(made):
    less = made("less.vkb", kernels=["softmax"], code=lambda code: None if code.target == "cpu:x86-64-v2" else code)
    whole = made("whole.vkb", kernels=["softmax"])
    found = differences(whole, less)
    assert {str(each) for each in found} == {
        f"- {SOFTMAX} {which} for cpu:x86-64-v2" for which in ("(M=6, N=37)", "(M=6, N=37, x is out)",
                                                              "(other sizes)", "(any sizes)")
    }  # fmt: skip
    assert [each.change for each in differences(less, whole)] == ["added"] * len(found)


def test_a_changed_plan_is_told_with_its_decisions_and_hashes(built, made):
    whole, other = made("whole.vkb"), replanned(built, made, "other.vkb", warps=7)
    found = differences(whole, other)
    assert [str(each) for each in found] == [
        f"~ {name} (M=6, N=37) for cpu:x86-64-v2: plan (warps)" for name in (SCALE, SOFTMAX)
    ]
    hashes = {entry.sha256 for entry in whole.manifest.files}
    for each in found:
        (part,) = each.parts
        assert {*part.before} <= hashes
        assert not {*part.after} & hashes


def test_bytes_of_code_count_though_their_name_is_the_same(built, made):
    whole = made("whole.vkb")
    name = next(code.cpu.object for code in built[0].codes if code.role == "plain")
    other = made("other.vkb", files={name: built[1][name] + b"\0"})
    found = differences(whole, other)
    assert found
    assert all([part.name for part in each.parts] == ["code"] for each in found)


def test_the_runtimes_own_code_counts(built, made):
    (support,) = built[0].support
    other = made("other.vkb", files={support.object: b"another"})
    (found,) = differences(made("whole.vkb"), other)
    assert str(found) == f"~ runtime {support.key[:12]} for {support.machine}: code"


def test_a_plan_that_is_none_is_compared_by_its_hash(built, made):
    name = next(code.plan for code in built[0].codes)
    found = differences(made("whole.vkb"), made("other.vkb", files={name: b"["}))
    assert found
    assert all(part.decisions == () for each in found for part in each.parts)


def test_the_command_says_it_as_text_and_as_json(run_vk, built, made, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "200")
    one, other = made("one.vkb").path, replanned(built, made, "other.vkb", warps=7).path
    assert run_vk("bundle", "diff", one, one)[:2] == (0, "the same kernels and code\n")
    code, output, _ = run_vk("bundle", "diff", one, other)
    assert (code, len(output.splitlines())) == (1, 2)
    code, output, errors = run_vk("bundle", "diff", one, other, "--json", "-")
    assert code == 1
    assert "plan (warps)" in errors
    found = json.loads(output)
    assert found["command"] == "bundle diff"
    assert [each["kernel"] for each in found["differences"]] == ["scale", "softmax"]
    assert found["differences"][0]["parts"][0]["decisions"] == ["warps"]


def test_bundles_of_other_targets_and_sizes_become_one(built, made, tmp_path):
    one = made("one.vkb", code=lambda code: code if code.target == "cpu" else None)
    other = made("other.vkb", code=lambda code: None if code.target == "cpu" else code)
    manifest, files = merged([one, other])
    write_bundle(tmp_path / "both.vkb", manifest, files)
    assert not differences(made("whole.vkb"), open_bundle(tmp_path / "both.vkb", runs=False))


def test_other_code_for_the_same_call_is_refused_unless_one_wins(built, made, tmp_path):
    one, other = made("one.vkb"), replanned(built, made, "other.vkb", warps=7)
    with pytest.raises(vk.BundleError, match="contradict") as refusal:
        merged([one, other])
    assert f"one.vkb and other.vkb: {SOFTMAX} (M=6, N=37) for cpu:x86-64-v2: plan (warps)" in str(refusal.value)
    for winner in (one, other):
        manifest, files = merged([one, other], prefer=winner)
        write_bundle(tmp_path / "both.vkb", manifest, files)
        assert not differences(winner, open_bundle(tmp_path / "both.vkb", runs=False))


def test_code_for_other_sizes_is_the_first_bundles(built, made, tmp_path):
    """Each build makes some, for the range of its own sizes: that is no conflict."""
    one, other = made("one.vkb"), replanned(built, made, "other.vkb", role="class", warps=7)
    assert differences(one, other)
    for ways in ([one, other], [other, one]):
        manifest, files = merged(ways)
        write_bundle(tmp_path / "both.vkb", manifest, files)
        assert not differences(ways[0], open_bundle(tmp_path / "both.vkb", runs=False))


def test_kernels_that_differ_are_refused_unless_one_wins(made):
    one, other = made("one.vkb"), made("other.vkb", kernels=["scale"], source="0" * 64)
    with pytest.raises(vk.BundleError, match=r"one\.vkb and other\.vkb: scale: the kernel's text has changed"):
        merged([one, other])
    kept = {kernel.name: kernel for kernel in merged([one, other], prefer=other)[0].kernels}
    assert kept["scale"].source == "0" * 64
    assert kept.keys() == {"scale", "softmax"}


def test_one_that_wins_does_not_settle_what_others_contradict_each_other_in(made):
    first, other = made("first.vkb", kernels=["scale"]), made("other.vkb", kernels=["scale"], source="0" * 64)
    with pytest.raises(vk.BundleError, match=r"first\.vkb and other\.vkb"):
        merged([first, other, softmax := made("softmax.vkb", kernels=["softmax"])], prefer=softmax)


def test_many_conflicts_are_counted(built, made):
    one = made("one.vkb")
    other = made("other.vkb", code=lambda code: msgspec.structs.replace(code, plan=next(iter(code.binaries))))
    with pytest.raises(vk.BundleError, match=r"and \d+ more$"):
        merged([one, other])


def test_files_of_one_name_and_other_content_are_refused(built, made):
    """Names follow from contents, where nobody forged them."""
    name = next(code.cpu.object for code in built[0].kernel("scale").variants[0].codes)

    def forged(code):
        return msgspec.structs.replace(code, cpu=msgspec.structs.replace(code.cpu, object=name))

    other = made("other.vkb", kernels=["softmax"], code=forged, files={name: b"another"})
    with pytest.raises(vk.BundleError, match=f"other.vkb: {name} has another content"):
        merged([made("one.vkb", kernels=["scale"]), other])


def test_files_that_nothing_needs_any_more_are_left_out(built, made):
    one, other = made("one.vkb"), replanned(built, made, "other.vkb", warps=7)
    _, files = merged([one, other], prefer=one)
    assert files.keys() == built[1].keys()


def test_the_command_merges_signs_and_runs(run_vk, built, made, secret, tmp_path):  # noqa: F811
    one, other = made("one.vkb", kernels=["scale"]).path, made("other.vkb", kernels=["softmax"]).path
    both = tmp_path / "both.vkb"
    assert run_vk("bundle", "merge", one, other, "-o", both)[0] == 2  # not trusted
    assert run_vk("bundle", "merge", one, other, "--trust-unsigned", "-o", both)[0] == 0
    assert open_bundle(both, runs=False).signatures == ()
    assert run_vk("bundle", "merge", one, other, "--trust-unsigned", "--sign", secret, "-o", both)[0] == 0
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    x = np.random.default_rng(seed).normal(size=(6, 37)).astype(np.float32)
    out = np.full_like(x, np.nan)
    vk.load(both, trust=secret).scale(x, 2.5, out)
    np.testing.assert_array_equal(out, x * np.float32(2.5))


def test_the_command_takes_the_one_that_wins(run_vk, built, made, tmp_path):  # noqa: F811
    one, other = made("one.vkb").path, replanned(built, made, "other.vkb", warps=7).path
    arguments = "bundle", "merge", one, other, "--trust-unsigned", "-o", tmp_path / "both.vkb"
    code, _, errors = run_vk(*arguments)
    assert code == 2
    assert "--prefer FILE" in errors
    assert not (tmp_path / "both.vkb").exists()
    code, _, errors = run_vk(*arguments, "--prefer", tmp_path / "third.vkb")
    assert code == 2
    assert "name one of the bundles" in errors
    assert run_vk(*arguments, "--prefer", other)[0] == 0
    assert run_vk("bundle", "diff", other, tmp_path / "both.vkb")[0] == 0


@pytest.mark.parametrize(("number", "said"), [(FORMAT + 1, "newer than"), (0, "older than")])
def test_other_formats_are_refused(run_vk, made, tmp_path, number, said):  # noqa: F811
    one = made("one.vkb").path
    data = one.read_bytes()
    bad = tmp_path / "bad.vkb"
    bad.write_bytes(data[:8] + struct.pack("<I", number) + data[12:])
    for command in (("diff", one, bad), ("merge", one, bad, "--trust-unsigned", "-o", tmp_path / "both.vkb")):
        code, _, errors = run_vk("bundle", *command)
        assert code == 2
        assert said in errors
    assert not (tmp_path / "both.vkb").exists()
