"""What tests of repeated calls share."""

from __future__ import annotations

import torch

from vkernels.library.replay import replayed


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def calls_of(function):
    """`function` replayed, and how often it really ran."""
    ran: list[int] = []

    @replayed
    def counted(*args, **kwargs):
        ran.append(1)
        return function(*args, **kwargs)

    return counted, ran
