"""A model of many tasks, each of about a millisecond on a core: what tuning whole models is tried on.

python benchmarks/model_tuning.py benchmarks/model_of_tasks.py:captions
vk tune --model benchmarks/model_of_tasks.py:captions --budget 10m
"""

from __future__ import annotations

import torch
from torch import nn

import vkernels.torch as vt

WORDS, WIDTH, HEADS, VOCABULARY = 128, 256, 8, 2000
CHANNELS = 32


class Pictures(nn.Module):
    """A convolution net: B × 3 × 32 × 32 pictures to B × WORDS × WIDTH, a row for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU(), nn.GroupNorm(8, CHANNELS))
        self.second = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1)
        self.then = nn.Sequential(nn.SiLU(), nn.GroupNorm(8, 2 * CHANNELS))
        self.third = nn.Conv2d(2 * CHANNELS, WIDTH // 2, 3, stride=2, padding=1)
        self.rows = nn.Linear(64, WIDTH)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        seen = self.third(self.then(self.second(self.first(pictures))))
        rows: torch.Tensor = self.rows(seen.flatten(2))
        return rows


class Block(nn.Module):
    """A block of a transformer: B × WORDS × WIDTH to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.parts = nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)
        self.after = nn.RMSNorm(WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU())
        self.outer = nn.Linear(2 * WIDTH, WIDTH)
        turns = torch.arange(WORDS)[:, None] / 100.0 ** torch.linspace(0, 1, WIDTH // HEADS // 2)
        self.register_buffer("cosine", turns.cos())
        self.register_buffer("sine", turns.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.parts(self.norm(x)).reshape(*x.shape[:2], 3, HEADS, -1).unbind(2)
        query, key = (vt.rotary_embedding(each, self.cosine, self.sine) for each in (query, key))
        seen = vt.attention(*(each.transpose(1, 2) for each in (query, key, value)), causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(2))
        y: torch.Tensor = x + self.outer(self.inner(self.after(x)))
        return y


class Captions(nn.Module):
    """How likely each next word of pictures' captions is, and the five likeliest."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures, self.block, self.norm = Pictures(), Block(), nn.LayerNorm(WIDTH)
        self.next = nn.Linear(WIDTH, VOCABULARY)
        self.likely = nn.LogSoftmax(-1)

    def forward(self, pictures: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.norm(self.block(self.pictures(pictures) + words))
        likely = self.likely(self.next(x).flatten(0, 1))
        return likely, *vt.topk(likely, 5), vt.argmax(likely, 1), vt.cumulative_sum(x.mean(-1)), vt.softmax(likely)


def captions() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model and what to call it with."""
    torch.manual_seed(0)
    return Captions().eval(), (torch.randn(4, 3, 32, 32), torch.randn(4, WORDS, WIDTH))
