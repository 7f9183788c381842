"""What would read or fill tensors on the host is refused while a GPU's work is captured in a graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import vkernels as vk
import vkernels.torch as vt
from vkernels.library import attention_blocks
from vkernels.library.attention_blocks import Band, Sequences, blocks_of


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the CPU look like a GPU whose work is captured."""

    def begin() -> None:
        monkeypatch.setattr("vkernels.torch.registering.is_captured", lambda device: True)
        monkeypatch.setattr("vkernels.library.attention_blocks.is_captured", lambda device: True)

    return begin


CHECKED = {
    "cross_entropy": lambda checked: vt.cross_entropy(torch.randn(2, 3), torch.tensor([0, 2]), checked=checked),
    "segment_sum": lambda checked: vt.segment_sum(torch.randn(3), torch.tensor([0, 3]), checked),
    "csr_matmul": lambda checked: vt.csr_matmul(
        torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), torch.randn(1, 2), checked=checked
    ),
    "ell_matmul": lambda checked: vt.ell_matmul(
        torch.tensor([[0]]), torch.ones(1, 1), torch.ones(1, 2), checked=checked
    ),
    "embedding_bag": lambda checked: vt.embedding_bag(
        torch.randn(2, 3), torch.tensor([1]), torch.tensor([0, 1]), checked=checked
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_indices_are_not_read(name: str, captured: Any) -> None:
    captured()
    with pytest.raises(vk.ArgumentError, match=f"{name}: checked=True reads indices"):
        CHECKED[name](True)
    CHECKED[name](False)


def test_what_needs_to_read_is_refused(captured: Any) -> None:
    captured()
    with pytest.raises(vk.ArgumentError, match="grouped_matmul: how many rows each group has is read on the host"):
        vt.grouped_matmul(torch.randn(2, 3), torch.randn(1, 3, 4), torch.tensor([0, 2]))
    q, start = torch.randn(2, 1, 3), torch.tensor([0, 2])
    with pytest.raises(vk.ArgumentError, match="attention_of_sequences: where sequences start is read on the host"):
        vt.attention_of_sequences(q, q, q, start, start)


def test_tables_of_attention_come_before_and_stay(captured: Any) -> None:
    device, known, new = torch.device("cpu"), *(Sequences((0, n), (0, n), Band()) for n in (1237, 1239))
    before = blocks_of(known, device)[0][0]
    captured()
    assert blocks_of(known, device)[0][0] is before
    assert any(each is before for each in attention_blocks._captured.values())
    with pytest.raises(vk.ArgumentError, match=r"attention: a first call .* make a call like it before"):
        blocks_of(new, device)
