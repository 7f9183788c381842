"""Arrays on GPUs that repeated calls keep."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from vkernels.library import gpu_arrays


def test_what_calls_keep_is_made_by_another_thread_except_while_a_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph that this thread warms up owns what it makes: torch gives the thread the graph's memory."""
    state = SimpleNamespace(captured=False, waited=0)

    class Stream:
        def __init__(self, device: torch.device):
            assert device == torch.device("cuda:1")

        def synchronize(self) -> None:
            state.waited += 1

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.captured)
    here = threading.get_ident()
    assert gpu_arrays.made_to_keep(torch.device("cuda:1"), threading.get_ident) != here
    assert state.waited == 1
    state.captured = True
    assert gpu_arrays.made_to_keep(torch.device("cuda:1"), threading.get_ident) == here
    assert gpu_arrays.made_to_keep(torch.device("cpu"), threading.get_ident) == here
