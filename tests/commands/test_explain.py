"""`vk explain`: text, JSON and pages; hostile names; mistakes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from vkernels.commands.explain.page import page_of
from vkernels.commands.explain.results import as_json, show
from vkernels.commands.formatting import format_bytes, format_count, format_seconds, printable
from vkernels.commands.results import console_for
from vkernels.inspect.explain import explain as explaining
from vkernels.ir.errors import SetupError

from ..inspect.explain.conftest import SHAPES, TARGETS, explained  # noqa: F401

DOCUMENTS = Path(__file__).parents[2] / "docs"
CELLS = [(kernel, target) for kernel in SHAPES for target in TARGETS]
OWN = """
import vkernels as vk
from jaxtyping import Float

@vk.kernel
def script(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]  # <script>alert(1)</script> & "quotes" \x1b[31m
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)

@vk.kernel(plan=vk.Pin(tiles={"M": 3}))
def pinned_wrongly(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]

@vk.kernel(plan=vk.Pin(tiles={"i": 2}), budget=vk.Budget(threads=64))
def pinned(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]

@vk.kernel(plan=vk.Plan(tiles={"i": 4096, "j": 4096}))
def large(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]
"""
PLAIN = """
import triton
import triton.language as tl

@triton.jit
def copy(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < count), at < count)
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def vk(run_vk, shared_workers):
    """Runs `vk explain` in this process; gives exit code, output and errors. One plan is compiled."""
    return lambda *arguments: run_vk("explain", "--judge", "1", *arguments)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    (tmp_path / "plain.py").write_text(PLAIN)
    return path


class Page(HTMLParser):
    """The elements, attributes and visible texts of a page; fails where elements are not closed in order."""

    EMPTY = frozenset({"meta", "rect", "line"})

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.attributes, self.texts = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_the_text_tells_every_phase_home_decision_and_resource(explained, capsys, kernel, target):  # noqa: F811
    found = explained(kernel, target)
    show(found, (), console_for())
    words = capsys.readouterr().out
    for phase in found.findings.phases:
        assert f"\n{phase.name}: " in words
    for value in found.findings.kept:
        assert f"{value.label} [" in words
        assert value.why in words
    for word in ("registers", "shared", "chunk" if found.findings.plan["chunks"] else "tile", "Modelled time"):
        assert word in words
    for launch in found.launches:
        assert f"{launch.use.resources.registers} registers a thread" in words
        assert f"limited by {' and '.join(launch.occupancy.limited_by)}" in words
    if found.is_cpu:
        assert f"{found.findings.native.instructions} instructions" in words


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_the_json_has_every_field_of_its_documentation(explained, kernel, target):  # noqa: F811
    found = explained(kernel, target)
    data = json.loads(json.dumps(as_json(found, "3.9.0"), allow_nan=False))
    assert data["fits"] is True
    assert data["target"] == found.target.key
    documented = (DOCUMENTS / "json.md").read_text().partition("## vk explain")[2]
    for name in data:
        assert f"`{name}`" in documented
    assert data["phases"][0].keys() >= {"name", "axes", "does", "registers", "shared_bytes", "operations"}
    assert data["modelled_seconds"] > 0
    assert data["bottleneck"]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_the_page_needs_nothing_else_and_draws_within_its_frames(explained, kernel, target):  # noqa: F811
    found = explained(kernel, target)
    html = page_of(found)
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "a", "form"} & set(page.elements)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")]
    assert "http://" not in html.split("</head>")[0]
    drawings = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(drawings) >= 3
    for drawing in map(ElementTree.fromstring, drawings):
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for shape in drawing.iter("rect"):
            x, y, wide, high = (float(shape.get(name)) for name in ("x", "y", "width", "height"))
            assert x >= 0 <= y
            assert x + wide <= width + 1
            assert y + high <= height + 1
    texts = "".join(page.texts)
    for phase in found.findings.phases:
        assert phase.name in texts
    for name in found.stages:
        assert name in texts


@pytest.mark.slow
def test_needs_are_drawn_to_the_scale_of_the_limit(explained):  # noqa: F811
    found = explained("softmax", "t4")
    drawing = ElementTree.fromstring(re.search(r"<svg.*?</svg>", page_of(found), re.S)[0])
    room = {float(shape.get("width")) for shape in drawing.iter("rect") if shape.get("class") == "room"}
    needs = [float(shape.get("width")) for shape in drawing.iter("rect") if shape.get("class") in ("need", "over")]
    assert len(room) == 1
    shares = [phase.registers / found.limits.registers for phase in found.findings.phases]
    assert [need / max(room) for need in needs] == pytest.approx(shares, abs=0.01)


MISTAKES = {
    "no kernel": (["--target", "t4"], "KERNEL"),
    "no such kernel": (["sofmax", "--target", "t4"], "did you mean softmax?"),
    "all kernels": (["all", "--target", "t4"], "takes one kernel"),
    "no target": (["softmax"], "--target: name a target"),
    "no such target": (["softmax", "--target", "t44"], "did you mean t4?"),
    "no such slice": (["softmax", "--target", "h100-sxm5-80", "--slice", "1g.11gb"], "did you mean 1g.10gb?"),
    "two slices": (["softmax", "--target", "h100-sxm5-80:1g.10gb", "--slice", "mps=50"], "names a slice already"),
    "no such limits": (["softmax", "--limits", "absent.toml"], "absent.toml"),
    "no such stage": (["softmax", "--target", "t4", "--ir", "ptxx"], "did you mean ptx?"),
    "a stage of others": (["softmax", "--target", "cpu", "--ir", "ptx"], "unknown stage 'ptx' for the CPU"),
    "no such dtype": (["softmax", "--target", "t4", "--dtype", "float17"], "did you mean float16?"),
    "no such size": (["softmax", "--target", "t4", "--shape", "Q=3"], "has no size 'Q'"),
    "results into a folder": (["softmax", "--target", "t4", "--json", "."], "is a folder"),
    "a page into a folder": (["softmax", "--target", "t4", "--html", "."], "is a folder"),
    "no such file": (["absent.py:scale", "--target", "t4"], "absent.py: there is no such file"),
    "no kernel in it": (["own.py", "--target", "t4"], "name a kernel in a file as FILE.py:KERNEL"),
    "no such kernel in it": (["own.py:scrip", "--target", "t4"], "did you mean script?"),
    "no sizes": (["own.py:script", "--target", "t4"], "sizes must be given: M, N"),
    "a plain Triton kernel": (["plain.py:copy", "--target", "t4"], "neither phases nor a plan"),
    "a pin that cannot be": (["own.py:pinned_wrongly", "--target", "t4", "--shape", "M=4,N=4"], "did you mean i"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_code_2(vk, own, monkeypatch, name):
    monkeypatch.chdir(own.parent)
    arguments, words = MISTAKES[name]
    code, output, said = vk(*arguments)
    assert (code, output) == (2, "")
    assert words in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_hostile_names_are_neither_markup_nor_commands_of_a_terminal(vk, own, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>\x1b[31m\u202e.py"
    hostile.write_text(OWN)
    limits = tmp_path / "own.toml"
    limits.write_text('[mine]\nlike = "t4"\nname = "<script>alert(2)</script>"\n')
    html = tmp_path / "page.html"
    code, output, said = vk(f"{hostile}:script", "--shape", "M=4,N=70000", "--limits", limits, "--html", html)
    assert (code, said) == (0, "")
    assert not re.search("[\x1b\u202e]", output)
    text = html.read_text(encoding="utf-8")
    assert not re.search("[\x1b\u202e]", text)
    page = Page(text)
    assert not {"script", "img"} & set(page.elements)
    assert "<script>alert(2)</script>" in "".join(page.texts)
    assert "<script>alert(1)</script>" in "".join(page.texts)


def test_what_the_author_pinned_and_bounded_is_marked(vk, own):
    code, output, said = vk(f"{own}:pinned", "--target", "t4", "--shape", "M=64,N=4096", "--json", "-")
    data = json.loads(output)
    assert code == 0
    assert data["pinned"] == [["tiles", "i"]]
    assert (data["plan"]["tiles"]["i"], data["budget"], data["limits"]["threads"]) == (2, {"threads": 64}, 64)
    assert "pinned by the author" in " ".join(said.split())
    assert "threads 64" in said


def test_a_plan_that_cannot_be_is_explained_and_code_1(vk, own):
    code, output, said = vk(f"{own}:large", "--target", "t4", "--shape", "M=8192,N=8192", "--json", "-")
    data = json.loads(output)
    assert (code, data["fits"]) == (1, False)
    assert data["reason"]
    assert data["phases"]
    assert "It does not fit" in said


def test_what_no_compiler_here_can_tell_is_code_3_and_all_else_is_said(vk, monkeypatch):
    def refuse(architecture, version):
        raise SetupError(f"Triton {version} does not compile for {architecture}")

    monkeypatch.setattr(explaining, "refuse_unless_compiles", refuse)
    code, output, said = vk("softmax_rows", "--target", "t4", "--json", "-")
    data = json.loads(output)
    assert (code, data["fits"], data["launches"]) == (3, None, [])
    assert data["phases"]
    assert "Unknown whether it fits" in said
    code, output, said = vk("softmax_rows", "--target", "t4", "--ir", "ptx")
    assert (code, output) == (3, "")
    assert "does not compile for sm_75" in said


@pytest.mark.parametrize(
    ("stage", "target", "words"),
    [
        ("as-written", "t4", "vk.kernel @softmax_rows"),
        ("after-split-phases", "mi300x", 'vk.phase "max"'),
        ("after-apply-plan", "cpu", "vk.mapped @softmax_rows"),
        ("ptx", "t4", ".target sm_75"),
        ("assembly", "cpu", "softmax_rows"),
    ],
)
def test_a_stage_alone_is_printed(vk, stage, target, words):
    code, output, said = vk("softmax_rows", "--target", target, "--ir", stage, "--shape", "M=64,N=512")
    assert (code, said) == (0, "")
    assert words in output


def test_stages_are_listed_for_each_kind_of_target(vk):
    listed = {target: vk("softmax", "--target", target, "--ir", "list")[1] for target in ("t4", "mi300x", "cpu")}
    assert [name in listed["t4"] for name in ("ptx ", "amdgcn ", "assembly ")] == [True, False, False]
    assert [name in listed["mi300x"] for name in ("ptx ", "amdgcn ", "assembly ")] == [False, True, False]
    assert [name in listed["cpu"] for name in ("ptx ", "amdgcn ", "assembly ")] == [False, False, True]


def test_numbers_are_told_in_words():
    assert [format_bytes(n) for n in (0, 1023, 1024, 3 << 30)] == ["0 B", "1023 B", "1 KiB", "3 GiB"]
    assert [format_count(n) for n in (0, 9999, 12_300, 4.2e9)] == ["0", "9999", "12.3 thousand", "4.2 billion"]
    assert [format_seconds(s) for s in (2.5, 0.0021, 1.18e-5, 0)] == ["2.5 s", "2.1 ms", "11.8 µs", "0 ns"]
    assert printable("a\x1b[0m\u202eb\ud800") == "a\\x1b[0m\\u202eb?"
