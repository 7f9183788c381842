"""What would read or fill tensors on the host is refused while a GPU's work is captured in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import vkernels as vk
import vkernels.torch as vt
from vkernels.library import attention_blocks
from vkernels.library.arrays import read_on_this_stream
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


def test_what_a_cache_drops_is_not_overwritten_while_another_stream_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu(torch.Tensor):
        is_cuda, read_by = True, ()

        def record_stream(self, stream: Any) -> None:
            self.read_by = (*self.read_by, stream)

    table = torch.zeros(3).as_subclass(OnGpu)
    for stream in ("first", "second"):
        monkeypatch.setattr("torch.cuda.current_stream", lambda device, stream=stream: stream)
        assert read_on_this_stream(table) is table
    assert table.read_by == ("first", "second")
    assert read_on_this_stream(np.zeros(3)).shape == (3,)


@pytest.mark.slow
def test_each_call_says_which_stream_reads_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []
    for module in ("attention_blocks", "experts"):
        monkeypatch.setattr(
            f"vkernels.library.{module}.read_on_this_stream", lambda array: noted.append(array) or array
        )
    q, start = torch.randn(2, 1, 3), torch.tensor([0, 2])
    for _ in range(2):
        before = len(noted)
        vt.attention_of_sequences(q, q, q, start, start)
        assert len(noted) > before
        before = len(noted)
        vt.grouped_matmul(torch.randn(2, 3), torch.randn(1, 3, 4), torch.tensor([0, 2]))
        assert len(noted) > before
