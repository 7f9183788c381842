"""Kernels that count, look up and label: atomics, gathers, graphs."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def bincount(x: Int[vk.Tensor, "N"], out: Int[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[x[i]], 1)


@vk.kernel
def largest_of_all(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "1"]):
    i, j = vk.tile("M"), vk.tile("N")
    vk.atomic_max(out[0], x[i, j])


@vk.function
def hashed(key, salt: vk.Constant, bits: vk.Constant):
    mixed = (key ^ (key >> 15)) * (2654435761 + 2 * salt)
    return ((mixed ^ (mixed >> 13)) * 2246822519 >> 7) & (bits - 1)


@vk.kernel
def bloom_insert(keys: Int[vk.Tensor, "N"], table: Int[vk.Tensor, "T"], bits: vk.Constant = 1024):
    """A byte would do for each bit; here it is a number, 1 if set."""
    i = vk.tile("N")
    for salt in range(3):
        vk.atomic_max(table[hashed(keys[i], salt, bits)], 1)


@vk.kernel
def bloom_query(
    keys: Int[vk.Tensor, "N"], table: Int[vk.Tensor, "T"], found: Int[vk.Tensor, "N"], bits: vk.Constant = 1024
):
    i = vk.tile("N")
    every = vk.full((i,), 1, vk.int64)
    for salt in range(3):
        every = every & table[hashed(keys[i], salt, bits)]
    found[i] = every


@vk.kernel
def propagate_labels(
    start: Int[vk.Tensor, "V1"], neighbour: Int[vk.Tensor, "E"], label: Int[vk.Tensor, "V"], out: Int[vk.Tensor, "V"]
):
    """One step of connected components: each vertex takes the least label of its own and its neighbours'."""
    v = vk.tile("V")
    least = label[v]
    for e in vk.range(start[v], start[v + 1]):
        least = vk.minimum(least, label[neighbour[e]])
    out[v] = least


@vk.kernel
def sparse_product(
    start: Int[vk.Tensor, "M1"],
    column: Int[vk.Tensor, "A"],
    value: Float[vk.Tensor, "A"],
    other_start: Int[vk.Tensor, "K1"],
    other_column: Int[vk.Tensor, "B"],
    other_value: Float[vk.Tensor, "B"],
    out: Float[vk.Tensor, "M N"],
):
    """A product of two CSR matrices, row by row (Gustavson), into dense rows."""
    i = vk.tile("M")
    for a in vk.range(start[i], start[i + 1]):
        k = column[a]
        for b in vk.range(other_start[k], other_start[k + 1]):
            vk.atomic_add(out[i, other_column[b]], value[a] * other_value[b])


@vk.kernel
def embedding_bags(
    table: Float[vk.Tensor, "V D"],
    start: Int[vk.Tensor, "B1"],
    index: Int[vk.Tensor, "N"],
    out: Float[vk.Tensor, "B D"],
):
    b, d = vk.tile("B"), vk.whole("D")
    total = vk.zeros((b, d), like=table)
    for n in vk.range(start[b], start[b + 1]):
        total += table[index[n], d]
    out[b, d] = total


@vk.kernel
def kmeans_step(
    x: Float[vk.Tensor, "N D"],
    centre: Float[vk.Tensor, "K D"],
    total: Float[vk.Tensor, "K D"],
    count: Float[vk.Tensor, "K"],
    nearest: Int[vk.Tensor, "N"],
):
    """Assign each point to its nearest centre, and add it up there."""
    n, k, d = vk.tile("N"), vk.whole("K"), vk.whole("D")
    apart = vk.sum(centre[k, d] * centre[k, d], axis=d) - 2 * vk.dot(x[n, d], centre[k, d])
    mine = vk.argmin(apart, axis=k)
    nearest[n] = mine
    vk.atomic_add(count[mine], 1.0)
    vk.atomic_add(total[mine, d], x[n, d])


@vk.kernel
def two_hops(
    start: Int[vk.Tensor, "V1"], neighbour: Int[vk.Tensor, "E"], label: Int[vk.Tensor, "V"], out: Int[vk.Tensor, "V"]
):
    """Two steps of connected components in one kernel: all vertices have their new label before any reads it."""
    v = vk.tile("V")
    for reads, writes in ((label, out), (out, label)):
        least = reads[v]
        for e in vk.range(start[v], start[v + 1]):
            least = vk.minimum(least, reads[neighbour[e]])
        writes[v] = least
        vk.phase(grid=True)
