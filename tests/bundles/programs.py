"""Programs that tests build bundles of: a transformer block of library functions, and a network of the challenge."""

import numpy as np

from vkernels.library import activate, attention, layer_norm, matmul
from vkernels.sparse_network.generate import radix_network

FEATURES, HEADS, POSITIONS = 128, 4, 64


def weights(features=FEATURES):
    random = np.random.default_rng(0)

    def drawn(*shape):
        return (random.standard_normal(shape) * features**-0.5).astype(np.float32)

    return drawn(features, 3 * features), drawn(features, features), drawn(features, 4 * features), drawn(512, features)


def block(x):
    """Attention and two layers behind each other, each added to what it gets (Vaswani et al. 2017)."""
    into_heads, from_heads, up, down = weights()
    parts = matmul(layer_norm(x), into_heads).reshape(len(x), 3 * HEADS, -1).transpose(1, 0, 2)[None]
    seen = attention(*np.split(parts, 3, axis=1), causal=True)
    x = x + matmul(seen[0].transpose(1, 0, 2).reshape(len(x), -1), from_heads)
    return x + matmul(activate(matmul(layer_norm(x), up), "gelu"), down)


def words(seed=0):
    return np.random.default_rng(seed).standard_normal((POSITIONS, FEATURES)).astype(np.float32)


def images(seed=0, count=256):
    random = np.random.default_rng(seed)
    return (random.random((1024, count)) < np.linspace(0, 0.4, count)).astype(np.float32)


def challenge(given):
    return radix_network(1024, 120).infer(given).features


def transformer_program():
    return block, words()


def challenge_program():
    return challenge, images()
