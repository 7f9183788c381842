"""What the report says of entries, and that its page is whole, needs nothing else, and shows texts as texts."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.autotune.database.making import LIMITS, entry
from vkernels.autotune.database import MODELLED, Database
from vkernels.autotune.database.entry import compilers
from vkernels.autotune.report import find, title_of
from vkernels.commands import main
from vkernels.commands.report.page import page_of
from vkernels.ir.plan import Home

PRESENT = (compilers(False), compilers(True))
ONE, TWO = LIMITS, replace(LIMITS, multiprocessors=1)
VOID = {"meta", "br"}


def trial(number, seconds, tile, limits=ONE, slice="cpu:cores=2", run="r", chunk=64, **more):
    given = entry(tile, seconds, limits=limits, **more)
    plan = replace(given.plan, chunks={"j": chunk})
    return replace(given, plan=plan, provenance=replace(given.provenance, slice=slice, run=run, trial=number))


def subject(*entries):
    (found,) = find(entries, PRESENT).subjects
    return found


def test_a_run_is_the_best_until_each_trial():
    found = subject(trial(2, 3.0, 3), trial(0, 4.0, 1), trial(1, None, 2, failure="crash"), trial(3, 2.0, 4))
    (run,) = found.slices[0].convergence
    assert run.trials == ((0, 4.0, 4.0), (1, None, 4.0), (2, 3.0, 3.0), (3, 2.0, 2.0))


def test_a_resumed_run_goes_on_where_the_earlier_one_ended():
    first = [replace(trial(n, 5.0 - n, n + 1), provenance=replace(trial(n, 1.0, 1).provenance, run="b", when=10.0 + n))
             for n in range(3)]  # fmt: skip
    second = [replace(trial(n, 6.0, n + 5), provenance=replace(trial(n, 1.0, 1).provenance, run="a", when=20.0 + n))
              for n in range(2)]  # fmt: skip
    judged_again = replace(first[2], final=True, provenance=replace(first[2].provenance, when=30.0))
    progress = subject(*second, judged_again, *first[:2]).slices[0].progress
    assert progress.trials == ((0, 5.0, 5.0), (1, 4.0, 4.0), (2, 3.0, 3.0), (3, 6.0, 3.0), (4, 6.0, 3.0))
    assert subject(first[0]).slices[0].progress is None


def test_a_choice_weighs_what_the_best_with_another_value_takes():
    found = subject(
        trial(0, 1.0, 1, chunk=8), trial(1, 2.0, 2, chunk=8), trial(2, 1.5, 1, chunk=16), trial(3, 6.0, 2, chunk=16)
    )
    weights = {choice.name: dict(choice.factors) for choice in found.slices[0].choices}
    assert weights == {"tile i": {"1": 1.0, "2": 2.0}, "chunk j": {"8": 1.0, "16": 1.5}}
    assert [choice.name for choice in found.slices[0].choices] == ["tile i", "chunk j"]


def test_tuned_for_and_run_on_is_the_part_of_the_best_there():
    found = subject(
        trial(0, 1.0, 1), trial(1, 4.0, 2), trial(2, None, 3, failure="does-not-fit"),
        trial(0, 5.0, 1, TWO, "cpu:cores=1"), trial(1, 2.0, 2, TWO, "cpu:cores=1"),
    )  # fmt: skip
    assert [each.name for each in found.slices] == ["cpu:cores=1", "cpu:cores=2"]
    assert found.crossed() == ((1.0, 0.25), (0.4, 1.0))
    assert found.differing() == {"tile i": ("2", "1")}


def test_the_gain_is_over_the_plan_that_runs_untuned():
    found = subject(trial(0, 3.0, 1, default=True), trial(1, 2.0, 2), trial(2, 9.0, 3))
    assert found.slices[0].group.gain == 1.5
    assert subject(trial(0, 3.0, 1)).slices[0].group.gain is None
    assert "×1.50" in page_of(find([trial(0, 3.0, 1, default=True), trial(1, 2.0, 2)], PRESENT), "")


def test_what_nobody_measured_is_not_told_and_what_failed_is_nothing():
    found = subject(
        trial(0, 1.0, 1), trial(1, None, 2, failure="crash"), trial(0, 2.0, 2, TWO, "cpu:cores=1"),
        trial(0, 3.0, 7, replace(ONE, multiprocessors=4), "cpu:cores=4"),
    )  # fmt: skip
    assert found.crossed() == ((1.0, 0.0, None), (None, 1.0, None), (None, None, 1.0))


def test_other_compilers_are_left_out_unless_there_are_no_others():
    old = replace(entry(1), key=replace(entry(1).key, compilers="triton=1"))
    assert (find([old, entry(2)], PRESENT).stale, find([old, entry(2)], PRESENT).entries) == (1, 1)
    assert (find([old], PRESENT).stale, find([old], PRESENT).entries) == (0, 1)


class Checker(HTMLParser):
    """Notes what is open, and every attribute that could load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.seen, self.words = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def checked(page):
    """The page without its own scripts, which its policy names by hash, loads nothing."""
    assert page.count("<script>") == page.count("'sha256-")
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert all(value.startswith("#") for value in checker.loads)
    assert not {"script", "link", "iframe", "img", "object", "embed"} & {*checker.seen}
    assert not re.search(r"url\(|@import|https?:", page)
    assert 'name="viewport"' in page
    return checker


def many():
    slices = ((ONE, "cpu:cores=2"), (TWO, "cpu:cores=1"), (replace(ONE, multiprocessors=4), "cpu:cores=4"))
    failed = {"failure": "crash", "text": "signal 11"}
    return [
        trial(
            n, 1.0 + (n * 13 % 11) / 7, 1 + n % 5, limits, slice, chunk=8 << n % 3, kernel=kernel,
            **(failed if n % 7 == 3 else {}),
        )
        for kernel in "abc" for limits, slice in slices for n in range(40)
    ]  # fmt: skip


def test_the_page_is_whole_and_loads_nothing():
    checker = checked(page_of(find(many(), PRESENT), "a.sqlite"))
    words = " ".join(checker.words)
    for said in (
        "tuned for ↓ run on →",
        "cpu:cores=4",
        "kernel_c",
        "crash",
        "Search progress",
        "What each choice weighs",
    ):
        assert said in words
    assert checker.seen.count("svg") == 3 * 3


@pytest.mark.parametrize(
    "entries",
    [[], [entry(1)], [entry(1, failure="crash")], [entry(1, origin=MODELLED)], [entry(1), entry(2)],
     [trial(0, 1.0, 1), trial(10**15, 1e-300, 2)], [trial(0, 1e15, 1), trial(1, 1e-15, 2, shape={})]],
    ids=["nothing", "one", "a failure", "modelled", "two", "far trials", "far times"],
)  # fmt: skip
def test_few_and_odd_entries_have_a_page_too(entries):
    checked(page_of(find(entries, PRESENT), "a.sqlite"))


def test_texts_are_shown_as_texts():
    evil = '"><script>alert(1)</script><img src=x onerror=alert(2)>\N{RIGHT-TO-LEFT OVERRIDE}'
    some = [trial(0, 1.0, 1), trial(1, 2.0, 2), trial(2, None, 3, failure="crash", text=evil)]
    hostile = [
        replace(
            each, kernel=evil, shape={evil: 4}, key=replace(each.key, dtypes=f"{evil}=float32"),
            plan=replace(each.plan, tiles={evil: n}, homes={evil: Home.SHARED}, lanes=evil),
            provenance=replace(each.provenance, device=evil, slice=evil, driver=evil, clocks={evil: 1.0}, run=evil),
        )
        for n, each in enumerate(some)
    ]  # fmt: skip
    page = page_of(find(hostile, PRESENT), evil)
    checked(page)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


def test_vk_report_writes_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Database.open("a.sqlite") as database:
        database.add(*many())
    with pytest.raises(SystemExit) as exit:
        main(["report", "out.html", "--db", "a.sqlite", "--kernel", "kernel_a"])
    assert exit.value.code == 0
    checker = checked((tmp_path / "out.html").read_text())
    assert "kernel_a" in " ".join(checker.words)
    assert "kernel_b" not in " ".join(checker.words)
    assert "out.html" in capsys.readouterr().out


def test_choices_are_drawn_by_plan_and_by_pairs_and_runs_beside_each_other():
    def tried(run: str, when: float) -> list:
        some = [trial(n, 2.0 + n, 1 << n % 3, chunk=8 << n // 3, run=run) for n in range(9)]
        return [replace(each, provenance=replace(each.provenance, when=when + n)) for n, each in enumerate(some)]

    one = page_of(find(tried("a", 1e9), PRESENT), "a.sqlite")
    assert {name for name in ("parallel", "pairs", "runs") if f'id="slice0-0-{name}"' in one} == {"parallel", "pairs"}
    assert "Runs compared" not in one
    later = [replace(each, plan=replace(each.plan, streams=("out",))) for each in tried("b", 2e9)]
    both = page_of(find([*tried("a", 1e9), *later], PRESENT), "a.sqlite")
    assert 'id="slice0-0-runs"' in both
    assert both.count(", 9 trials") == 2


def test_a_title_names_the_dtype_of_most_tensors_and_what_differs():
    shape = {"M": 4, "N": 8}
    assert title_of("k", shape, "out=float32 x=float32") == "k M=4 N=8 float32"
    assert title_of("k", shape, "column=int64 out=float32 x=float32") == "k M=4 N=8 float32 column=int64"
    assert title_of("k", {}, "") == "k"
