"""Shells complete commands, choices, kernels of the library and targets."""

from __future__ import annotations

import pytest

from vkernels.commands import main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vk memory p", {"plan", "place"}),
        ("vk check --fail-on ", {"misfit", "spill"}),
        ("vk check softmax_r", {"softmax_rows"}),
        ("vk explain layer_norm_ro", {"layer_norm_rows"}),
        ("vk tune softmax_rows --target h100-s", {"h100-sxm5-80"}),
        ("vk check softmax_rows --targets t4,h100-s", {"t4,h100-sxm5-80"}),
        ("vk build softmax_rows --targets cp", {"cpu"}),
        ("vk check mine.py:sc", set()),
    ],
)
def test_bash_completes(line, expected, monkeypatch, capfd):
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_VK_COMPLETE", "complete_bash")
    with pytest.raises(SystemExit):
        main([])
    assert set(capfd.readouterr().out.split()) == expected
