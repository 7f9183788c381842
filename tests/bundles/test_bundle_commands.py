"""`vk build` and `vk bundle`: from kernels to files, and what they say of them."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk
from tests.commands.conftest import run_vk  # noqa: F401 (a fixture)
from vkernels.bundles.bundle import open_bundle, write_bundle

KERNELS = Path(__file__).parent / "kernels.py"


def test_a_kernel_of_a_file_becomes_a_bundle(run_vk, tmp_path, secret):  # noqa: F811
    made = tmp_path / "scale.vkb"
    code, output, errors = run_vk(
        "build", f"{KERNELS}:scale", "--shapes", "M=6,N=37", "--sign", secret, "--no-plain", "-o", made
    )
    assert (code, errors) == (0, "")
    assert "1 kernel(s), 1 pieces of code" in output.replace("\n", " ")
    x, out = np.ones((6, 37), np.float32), np.full((6, 37), np.nan, np.float32)
    vk.load(made, trust=secret).scale(x, 2.5, out)
    assert (out == 2.5).all()


def test_kernels_of_several_sizes_become_one_bundle(run_vk, tmp_path):  # noqa: F811
    """Each takes the sizes that it has; a size that none has is a mistake."""
    file = tmp_path / "two.py"
    file.write_text(
        KERNELS.read_text()
        + """

@vk.kernel
def outer(a: Float[vk.Tensor, "K"], out: Float[vk.Tensor, "K N"]):
    k, j = vk.tile("K"), vk.tile("N")
    out[k, j] = a[k] * j
"""
    )
    made, both = tmp_path / "two.vkb", ("build", f"{file}:scale", f"{file}:outer", "--no-plain", "-o")
    code, output, errors = run_vk(*both, made, "--shapes", "M=6,N=37,K=3", "--dtype", "a=f64")
    assert (code, errors) == (0, "")
    assert "2 kernel(s), 2 pieces of code" in output.replace("\n", " ")
    bundle, out = vk.load(made, trust="unsigned"), np.empty((3, 37), np.float32)
    bundle.outer(np.arange(3.0), out)
    assert (out == np.outer(np.arange(3), np.arange(37))).all()
    code, _, errors = run_vk(*both, made, "--shapes", "M=6,N=37,K=3,R=2")
    assert code == 2
    assert "has no size 'R'" in errors


def test_mistakes_are_told(run_vk, tmp_path):  # noqa: F811
    for options, said in {
        ("--targets", "cpu:x86-64-v9"): "no instruction set",
        ("--targets", "cpu:x86-64-v3+sve"): "no feature",
        ("--targets", "h900"): "there is no target 'h900'",
        ("--sign", tmp_path / "none"): "No such file",
    }.items():
        code, _, errors = run_vk(
            "build", f"{KERNELS}:scale", "--shapes", "M=6,N=37", *options, "-o", tmp_path / "x.vkb"
        )
        assert code == 2
        assert said in errors
    assert not (tmp_path / "x.vkb").exists()


def test_show_and_verify(run_vk, net, secret, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "200")
    code, output, _ = run_vk("bundle", "show", net)
    assert code == 0
    for part in ("M=6, N=37", "x is out", "any, any strides", "cpu:x86-64-v2", "a test", "signed by hmac-sha256"):
        assert part in output
    code, output, _ = run_vk("bundle", "show", net, "--json", "-")
    assert {kernel["name"] for kernel in json.loads(output)["manifest"]["kernels"]} == {"scale", "softmax"}
    assert run_vk("bundle", "verify", net, "--trust", secret)[:2] == (
        0, f"{net}: whole, signed by hmac-sha256 key {open_bundle(net, secret).signer.key}\n"
    )  # fmt: skip
    code, output, _ = run_vk("bundle", "verify", net)
    assert code == 1
    assert "not trusted" in output


def test_diff_and_merge(run_vk, built, net, secret, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "200")
    import msgspec

    manifest, files = built
    one, other = tmp_path / "one.vkb", tmp_path / "other.vkb"
    write_bundle(one, msgspec.structs.replace(manifest, kernels=manifest.kernels[:1]), files)
    write_bundle(other, msgspec.structs.replace(manifest, kernels=manifest.kernels[1:]), files)
    assert run_vk("bundle", "diff", net, net)[:2] == (0, "the same kernels and code\n")
    assert run_vk("bundle", "diff", one, other)[:2] == (1, "- scale\n+ softmax\n")
    both = tmp_path / "both.vkb"
    assert run_vk("bundle", "merge", one, other, "-o", both)[0] == 2  # not trusted
    code, _, errors = run_vk("bundle", "merge", one, other, "--trust-unsigned", "--sign", secret, "-o", both)
    assert (code, errors) == (0, "")
    assert run_vk("bundle", "diff", net, both)[0] == 0
    assert [each.command for each in open_bundle(both, secret).manifest.provenance.merged] == ["a test", "a test"]


@pytest.mark.thorough
def test_library_kernels_become_bundles(run_vk, tmp_path):  # noqa: F811
    made = tmp_path / "rows.vkb"
    code, _, errors = run_vk("build", "softmax_rows", "--shapes", "M=32,N=100", "-o", made)
    assert (code, errors) == (0, "")
    assert vk.load(made, trust="unsigned", fallback="plain")


def test_looking_at_bundles_needs_no_compiler(net, tmp_path):
    """Modules of compilers cannot be imported: neither others' nor ours."""
    script = """
        import sys

        REFUSED = {"triton", "llvmlite", "sympy", "xdsl", "torch", "jaxtyping", "sqlalchemy", "vkernels.bundles.build"}

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name in REFUSED:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Refuse())
        from vkernels.commands import main

        net, out = sys.argv[1:]
        for command in (
            ["show", net], ["verify", net, "--trust-unsigned"], ["diff", net, net],
            ["merge", net, net, "-o", out, "--trust-unsigned"],
        ):
            sys.argv = ["vk", "bundle", *command]
            try:
                main()
            except SystemExit as ended:
                assert not ended.code, command
    """
    unsigned = tmp_path / "unsigned.vkb"
    bundle = open_bundle(net, runs=False)
    write_bundle(unsigned, bundle.manifest, {entry.name: bundle.read(entry.name) for entry in bundle.manifest.files})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), unsigned, tmp_path / "merged.vkb"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_names_of_strangers_do_not_control_the_terminal(run_vk, built, net, tmp_path, monkeypatch):  # noqa: F811
    """What a manifest says of how it was made is escaped; names of kernels, targets and rungs are refused."""
    from msgspec.structs import replace

    monkeypatch.setenv("COLUMNS", "200")
    manifest, files = built
    evil = "\x1b[2J\x1b]0;title\x07\u202e"
    kernel = manifest.kernels[0]
    variant = kernel.variants[0]
    other, refused = tmp_path / "other.vkb", tmp_path / "refused.vkb"
    made = replace(manifest.provenance, command=evil, vkernels=evil, time=evil)
    write_bundle(other, replace(manifest, provenance=made, kernels=(replace(kernel, source="0" * 64),)), files)

    def run(*command: object) -> str:
        _, output, errors = run_vk("bundle", *command)
        assert not {"\x1b", "\x07", "\u202e"} & set(output + errors)
        return output + errors

    assert "\\x1b[2J" in run("show", other)
    run("diff", net, other)
    run("merge", net, other, "--trust-unsigned", "-o", tmp_path / "both.vkb")
    codes = [tuple(replace(code, **{field: evil}) for code in variant.codes) for field in ("target", "rung")]
    named = [replace(kernel, variants=(replace(variant, codes=each),)) for each in codes]
    for wrong in (replace(kernel, name=evil), *named):
        write_bundle(refused, replace(manifest, kernels=(wrong,)), files)
        assert "the manifest cannot be read" in run("show", refused)
