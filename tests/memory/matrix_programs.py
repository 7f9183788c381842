"""Twenty programs as users write them, each the same for each make: the matrix under limits of memory."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint

from .programs import Block, cnn

SEED = 20261127


class MatrixProgram:
    """A program with `step(i)`, the i-th iteration. `modules` and `optimizers` hold what it learns; `carried`: more.

    `batches`: a step's inputs are drawn from a generator of its own.
    """

    def __init__(self):
        torch.manual_seed(SEED)
        self.modules, self.optimizers, self.carried = [], [], {}
        self.draw = torch.Generator().manual_seed(SEED)

    def add(self, module, optimizer=None):
        self.modules.append(module)
        if optimizer is not None:
            self.optimizers.append(optimizer)
        return module

    def state(self):
        """All that it has learnt, in order."""
        found = [value for module in self.modules for value in module.state_dict().values()]
        for optimizer in self.optimizers:
            for each in optimizer.state.values():
                found += [value for value in each.values() if isinstance(value, torch.Tensor)]
        return [*found, *(value for value in self.carried.values() if isinstance(value, torch.Tensor))]

    def randn(self, *shape):
        return torch.randn(*shape, generator=self.draw)

    def below(self, high, *shape):
        return torch.randint(high, shape, generator=self.draw)


class Gpt(MatrixProgram):
    """A small GPT with AdamW; subclasses change how it is trained."""

    autocast = clips = False
    accumulate, rows = 1, 4
    layer_checkpoints = False

    def __init__(self):
        super().__init__()
        self.embed = self.add(nn.Embedding(64, 48))
        self.blocks = self.add(nn.ModuleList(Block(48) for _ in range(3)))
        self.head = self.add(nn.Linear(48, 64))
        self.parameters = [value for module in self.modules for value in module.parameters()]
        self.opt = torch.optim.AdamW(self.parameters, 1e-3)
        self.optimizers.append(self.opt)

    def length(self, i):
        return 48

    def batch(self, i):
        tokens = self.below(64, self.rows, self.length(i) + 1)
        return tokens[:, :-1], tokens[:, 1:]

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.layer_checkpoints else block(x)
        return self.head(x)

    def loss(self, x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            return nn.functional.cross_entropy(self.forward(x).flatten(0, 1).float(), y.reshape(-1))

    def step(self, i):
        x, y = self.batch(i)
        loss = self.loss(x, y) / self.accumulate
        loss.backward()
        if i % self.accumulate == self.accumulate - 1:
            if self.clips:
                nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()


class GptAutocast(Gpt):
    autocast = True


class GptAccumulation(Gpt):
    accumulate = 3


class GptSkips(Gpt):
    """Steps of the optimiser in an order without a period, as where a scaler finds infinities."""

    def __init__(self):
        super().__init__()
        self.order = torch.Generator().manual_seed(SEED)

    def step(self, i):
        loss = self.loss(*self.batch(i))
        loss.backward()
        if torch.rand((), generator=self.order) < 0.5:
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()


class GptClipping(Gpt):
    clips = True


class GptCheckpointing(Gpt):
    layer_checkpoints = True


class GptAll(Gpt):
    """All of these together."""

    autocast = clips = layer_checkpoints = True
    accumulate = 2


class VaryingLengths(Gpt):
    """Another length in each step."""

    def length(self, i):
        return 20 + 7 * i % 31


class BatchChanges(Gpt):
    """A smaller batch now and then."""

    def batch(self, i):
        self.rows = 2 if i % 3 == 2 else 4
        return super().batch(i)


class Ema(Gpt):
    """A moving average of all weights."""

    def __init__(self):
        super().__init__()
        self.average = [value.detach().clone() for value in self.parameters]
        self.carried = dict(enumerate(self.average))

    def step(self, i):
        loss = super().step(i)
        with torch.no_grad():
            for old, new in zip(self.average, self.parameters, strict=True):
                old.lerp_(new, 0.1)
        return loss


class InferenceOnly(Gpt):
    def step(self, i):
        with torch.inference_mode():
            return self.loss(*self.batch(i))


class MixtureOfExperts(MatrixProgram):
    """Tokens are routed to one of four experts: sizes depend on data."""

    def __init__(self):
        super().__init__()
        self.router = self.add(nn.Linear(32, 4))
        self.experts = self.add(nn.ModuleList(
            nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(4)))  # fmt: skip
        parameters = [*self.router.parameters(), *self.experts.parameters()]
        self.opt = torch.optim.SGD(parameters, 0.1, momentum=0.9)
        self.optimizers.append(self.opt)

    def step(self, i):
        x = self.randn(256, 32)
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().flatten()
            out = out.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        loss = (out - x.roll(1, 1)).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()


class Carried(MatrixProgram):
    """A recurrent network whose state goes on from step to step (truncated backpropagation)."""

    kind = nn.LSTM

    def __init__(self):
        super().__init__()
        self.cell, self.head = self.add(self.kind(16, 48, 2)), self.add(nn.Linear(48, 16))
        self.opt = torch.optim.Adam([*self.cell.parameters(), *self.head.parameters()], 1e-2)
        self.optimizers.append(self.opt)
        self.hidden = None

    def step(self, i):
        x = self.randn(10, 16, 16)
        out, hidden = self.cell(x, self.hidden)
        loss = (self.head(out[:-1]) - x[1:]).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        is_pair = isinstance(hidden, tuple)
        self.hidden = tuple(each.detach() for each in hidden) if is_pair else hidden.detach()
        self.carried = dict(enumerate(self.hidden if is_pair else (self.hidden,)))
        return loss.detach()


class CarriedGru(Carried):
    kind = nn.GRU


class Cnn(MatrixProgram):
    """Convolutions with batch normalisation and dropout."""

    def __init__(self):
        super().__init__()
        model, self.x, self.y, _ = cnn()
        self.model = self.add(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))

    def loss(self):
        return nn.functional.cross_entropy(self.model(self.x), self.y)

    def step(self, i):
        loss = self.loss()
        self.optimizers[0].zero_grad()
        loss.backward()
        self.optimizers[0].step()
        return loss.detach()


class Unet(MatrixProgram):
    """Two levels down, two up, with skips."""

    def __init__(self):
        super().__init__()

        def level(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(1, after), nn.SiLU())

        parts = [level(1, 8), level(8, 16), level(16, 16), level(32, 8), level(16, 1)]
        self.parts = self.add(nn.ModuleList(parts))
        self.opt = torch.optim.Adam(self.parts.parameters(), 1e-3)
        self.optimizers.append(self.opt)

    def step(self, i):
        x = self.randn(4, 1, 32, 32)
        one = self.parts[0](x)
        two = self.parts[1](nn.functional.max_pool2d(one, 2))
        low = self.parts[2](nn.functional.max_pool2d(two, 2))
        up = self.parts[3](torch.cat([nn.functional.interpolate(low, scale_factor=2), two], 1))
        out = self.parts[4](torch.cat([nn.functional.interpolate(up, scale_factor=2), one], 1))
        loss = (out - x).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()


def mlp(*widths):
    """Linear layers with leaky ReLU between."""
    parts = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts[:-1])


class Gan(MatrixProgram):
    """A generator and a discriminator in turns; `penalty`: of the discriminator's gradient."""

    penalty = 0.0

    def __init__(self):
        super().__init__()
        make, judge = mlp(16, 96, 96, 64), mlp(64, 96, 96, 1)
        self.make = self.add(make, torch.optim.Adam(make.parameters(), 1e-3))
        self.judge = self.add(judge, torch.optim.Adam(judge.parameters(), 1e-3))

    def step(self, i):
        real, noise = self.randn(64, 64), self.randn(64, 16)
        fake = self.make(noise)
        loss = (1 - self.judge(real)).relu().mean() + (1 + self.judge(fake.detach())).relu().mean()
        if self.penalty:
            mixed = (0.5 * real + 0.5 * fake.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(self.judge(mixed).sum(), mixed, create_graph=True)
            loss = loss + self.penalty * (slope.norm(dim=1) - 1).square().mean()
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()
        made = -self.judge(self.make(noise)).mean()
        self.optimizers[0].zero_grad()
        made.backward()
        self.optimizers[0].step()
        return (loss + made).detach()


class GradientPenalty(Gan):
    penalty = 10.0


class Lbfgs(MatrixProgram):
    """Several evaluations a step, as many as the line search wants."""

    def __init__(self):
        super().__init__()
        self.model = self.add(mlp(24, 64, 64, 1))
        options = {"max_iter": 4, "history_size": 3, "line_search_fn": "strong_wolfe"}
        self.opt = torch.optim.LBFGS(self.model.parameters(), 0.5, **options)
        self.x = self.randn(256, 24)
        self.y = self.x.square().mean(1, keepdim=True)

    def step(self, i):
        def closure():
            self.opt.zero_grad()
            loss = (self.model(self.x) - self.y).square().mean()
            loss.backward()
            return loss

        return self.opt.step(closure).detach()


class PerSample(MatrixProgram):
    """A gradient of each sample, clipped, by torch.func."""

    def __init__(self):
        super().__init__()
        self.model = self.add(mlp(16, 48, 48, 4))

    def step(self, i):
        x, y = self.randn(24, 16), self.randn(24, 4)
        parameters = {name: value.detach() for name, value in self.model.named_parameters()}

        def loss(values, one, target):
            return (functional_call(self.model, values, (one[None],)) - target).square().mean()

        grads = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
        norm = sum(each.flatten(1).square().sum(1) for each in grads.values()).sqrt()
        scale = (1 / norm).clamp(max=1)
        with torch.no_grad():
            for name, value in self.model.named_parameters():
                value -= 0.05 * torch.einsum("n,n...->...", scale, grads[name])
        return norm.mean()


class TwoModels(MatrixProgram):
    """Two models are trained under one limit."""

    def __init__(self):
        super().__init__()
        self.parts = [Cnn(), Gan()]
        self.modules = [module for each in self.parts for module in each.modules]
        self.optimizers = [each for part in self.parts for each in part.optimizers]

    def step(self, i):
        return self.parts[0].step(i) + self.parts[1].step(i)


PROGRAMS = (
    Gpt, GptAutocast, GptAccumulation, GptClipping, GptCheckpointing, GptAll, VaryingLengths, BatchChanges, Ema,
    InferenceOnly, MixtureOfExperts, Carried, CarriedGru, Cnn, Unet, Gan, GradientPenalty, Lbfgs, PerSample, TwoModels,
)  # fmt: skip
OTHERS = (GptSkips,)
"""Programs that are not of the matrix."""
