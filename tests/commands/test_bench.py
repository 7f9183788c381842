"""`vk bench spdnn`: checked, forecast, cut to memory and time, and what is left out is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.sparse_network.tsv_writers import write_layer
from vkernels.commands import main
from vkernels.sparse_network import infer
from vkernels.sparse_network.bench import harness
from vkernels.sparse_network.bench.estimate import bytes_of_weights, images_within
from vkernels.sparse_network.bench.harness import ALL_SIZES, Size
from vkernels.sparse_network.bench.measure import NetworkRates, measure_interleaved
from vkernels.sparse_network.bench.reference import run_reference
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.images import ImageSource, pixels_of
from vkernels.sparse_network.tsv_files import layer_file

from ..sparse_network.test_challenge import deaf

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "json.md"


@pytest.fixture(scope="module", autouse=True)
def ceilings():
    """Ceilings are as if measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "measure_peaks", lambda threads: harness.MachinePeaks(1e10, 5e10, 2e10))
        yield


@pytest.fixture
def vk(run_vk):
    """Runs `vk bench spdnn` in this process; gives exit code, output and errors."""
    return partial(run_vk, "bench", "spdnn")


SMALL = ("--networks", "1024x3", "--images", "80", "--rounds", "1", "--seconds", "200")


@pytest.fixture(scope="module")
def found(tmp_path_factory, ceilings):
    """The JSON and the page of a small run with everything."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.raises(SystemExit) as exit:
        main(["bench", "spdnn", *SMALL, "--baselines", "all", "--json", str(folder / "x"), "--html", str(folder / "y")])
    assert not exit.value.code
    return json.loads((folder / "x").read_text()), (folder / "y").read_text()


def documented():
    """The names in each table of the JSON's description."""
    section = DOCUMENTATION.read_text().split("## vk bench spdnn")[1].split("\n## ")[0]
    tables = [block for block in section.split("\n\n") if block.strip().startswith("|")]
    rows = [re.findall(r"^\| (`.*?) \|", table, re.M) for table in tables]
    return [{name for row in table for name in re.findall(r"`(\w+)`", row)} for table in rows]


def test_the_json_is_what_is_documented(found):
    data, _ = found
    whole, network, run = documented()
    assert set(data) == whole
    assert set(data["networks"][0]) == network
    assert all(set(each) == run for each in data["networks"][0]["runs"])
    assert [each["class"] for each in data["networks"][0]["runs"]] == ["general", "structured", "saturating"]


def test_figures_go_together(found):
    data, _ = found
    (network,) = data["networks"]
    assert network["nominal_edges"] == 80 * 3 * 32768
    assert network["real_edges"] == 32768 * sum(network["live"])
    for run in network["runs"]:
        assert run["categories"] == "match"
        for name in ("real", "nominal"):
            assert run[f"{name}_edges_per_second"] == pytest.approx(network[f"{name}_edges"] / run["seconds"])
        assert run["executed_edges_per_second"] == pytest.approx(run["executed_edges"] / run["seconds"])
        assert run["transfer_seconds"] + run["kernels_seconds"] <= run["seconds"]
        gathers = data["ceilings"]["gathers_per_second"]
        assert run["of_gathers"] == pytest.approx(run["executed_edges_per_second"] / gathers)
    general, structured, saturating = network["runs"]
    assert structured["executed_edges"] < general["executed_edges"]
    assert list(general["baselines"]) == ["torch_csr", "torch_csr_batched", "scipy_csr"]
    assert list(structured["baselines"]) == ["torch_dense"]  # never a rival of another class
    assert not saturating["baselines"]
    assert all(each["categories"] == "match" for run in network["runs"] for each in run["baselines"].values())


def test_the_page_needs_nothing_else(found):
    _, page = found
    text = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""https?:|src=|url\(|<script|@import""", text)
    assert text.count("<svg") == 6
    assert page.count("'sha256-") == 2
    for kind in ("general", "structured", "saturating"):
        assert page.count(f"Class {kind}") == 1


def test_what_does_not_fit_is_said(vk):
    code, out, _ = vk("--networks", "65536x120", "--memory", "0.05", "--class", "general", "--json", "-")
    data = json.loads(out)
    assert code == 1
    assert data["categories"] == "unknown"
    assert data["left_out"] == [{"network": "65536x120", "what": "general", "reason": data["left_out"][0]["reason"]}]
    assert "GiB of memory, which leaves no room for images" in data["left_out"][0]["reason"]
    code, out, _ = vk("--networks", "1024x3", "--images", "5", "--seconds", "0.001", "--class", "general")
    assert code == 1
    assert re.search(r"left out: 1024x3 general: it would take about \d+ s and checking", out)


def test_wrong_survivors_are_a_finding(vk, monkeypatch):
    monkeypatch.setattr(infer, "run_layers", deaf)
    code, out, _ = vk(*SMALL, "--class", "general")
    assert code == 1
    assert "categories: differ" in out


MISTAKES = {
    "no network": ("--networks", "fast"),
    "a size that there is not": ("--networks", "1000x120"),
    "too many layers": ("--networks", "1024x1921"),
    "no such class": ("--class", "quick"),
    "no class": ("--class", "none"),
    "no such baseline": ("--baselines", "numpy"),
    "no such target": ("--target", "tpu"),
    "no such data": ("--data", "words.txt"),
    "no such storage": ("--storage", "int4"),
    "no file": ("--data", "nothing.npz"),
    "no images": ("--images", "0"),
    "no folder of weights": ("--networks", "1024x2", "--weights", "nowhere"),
    "no folder for the page": ("--html", "nowhere/x.html"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message(vk, name):
    code, out, err = vk(*MISTAKES[name])
    assert code == 2
    assert not out
    assert "Traceback" not in err
    assert err.strip()


def test_a_malformed_line_of_weights_is_named(vk, tmp_path):
    network = radix_network(1024, 2)
    for layer in range(2):
        write_layer(tmp_path / layer_file(1024, layer), network.read(layer, layer + 1), 0)
    options = ("--networks", "1024x2", "--weights", tmp_path, "--images", "40", "--rounds", "1", "--class", "general")
    assert vk(*options)[0] == 0
    path = tmp_path / layer_file(1024, 1)
    lines = path.read_text().splitlines()
    lines[6] = "1\ttwo\t0.5"
    path.write_text("\n".join(lines))
    code, _, err = vk(*options)
    assert code == 2
    assert f"{path}:7: expected 3 numbers" in err.replace("\n", "")


@pytest.mark.slow
def test_pieces_make_no_difference():
    network, source = radix_network(1024, 12), ImageSource(pixels_of("digits"), 1024).spread(90)
    whole = measure_interleaved(network, source, ["general"], rounds=1)
    parts = measure_interleaved(network, source, ["general"], rounds=2, piece=40)
    assert (whole.pieces, parts.pieces) == (1, 3)
    np.testing.assert_array_equal(whole.truth.survivors, parts.truth.survivors)
    np.testing.assert_array_equal(whole.truth.live, parts.truth.live)
    np.testing.assert_array_equal(whole.truth.live, run_reference(network, source.part(0, 90)).live)
    assert whole.runs[0].matches
    assert parts.runs[0].matches
    rates = NetworkRates.of(parts.runs[0], parts, harness.MachinePeaks(1.0, 1.0, 1.0))
    assert rates.real <= rates.executed <= rates.nominal


@pytest.mark.slow
def test_a_network_that_is_not_held_is_read_in_every_round():
    network, source = (
        replace(radix_network(1024, 12), most_held=1000),
        ImageSource(pixels_of("digits"), 1024).spread(30),
    )
    measured = measure_interleaved(network, source, ["general", "structured"], rounds=1)
    general, structured = measured.runs
    assert general.matches
    assert structured.matches
    assert general.reading > 0
    assert structured.reading == 0  # what was merged is held
    assert not measured.held


def test_images_at_a_time_are_as_many_as_memory_allows():
    network = replace(radix_network(65536, 1920), most_held=1 << 30)
    assert bytes_of_weights(network) < 1 << 30
    assert images_within(network, 1 << 29) == 0
    assert 0 < images_within(network, 4 << 30) < images_within(network, 16 << 30) < 60000


def test_the_twelve_networks_are_all_there():
    assert len(set(ALL_SIZES)) == 12
    assert Size.parse("1024x120") == ALL_SIZES[0]
