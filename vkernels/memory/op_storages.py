"""The storages that a torch operation reads, writes and makes, from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from vkernels.ir.errors import TraceError

OVERWRITING = frozenset({"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"})
"""In-place operations that do not read what they write."""
STATISTICS = ("running_mean", "running_var")
"""Arguments that batch normalisation changes, even if its schema does not say so."""
RESIZING = ("resize", "set_")
"""Prefixes of operations that replace a storage's memory."""


class Role(NamedTuple):
    """An argument that may hold tensors. `pure`: what is written is not read."""

    number: int
    name: str
    written: bool
    pure: bool


class OpKind(NamedTuple):
    """An operation's schema. `only_views`: all results are views by the schema, others may be too. `makes`: some
    results may have storages of their own. `decomposes`: it calls other operations, which inference mode hides."""

    name: str
    roles: tuple[Role, ...]
    only_views: bool
    gives_tensors: bool
    makes: bool
    decomposes: bool
    resizes: bool


@cache
def kind_of(func: Any) -> OpKind:
    """Read the schema of one of torch's operations."""
    schema = func._schema
    name, returns = schema.name.removeprefix("aten::"), schema.returns
    overwrites = schema.name.partition("::")[2] in OVERWRITING
    normalises = "batch_norm" in name and "backward" not in name
    roles = []
    for number, argument in enumerate(schema.arguments):
        writes = bool(argument.alias_info and argument.alias_info.is_write)
        changes = normalises and argument.name in STATISTICS
        if _may_hold_tensors(str(argument.type)):
            roles.append(Role(number, argument.name, writes or changes, writes and (overwrites or argument.kwarg_only)))
    only_views = bool(returns) and all(each.alias_info and not each.alias_info.is_write for each in returns)
    gives = any("Tensor" in str(each.type) for each in returns)
    makes = any("Tensor" in str(each.type) and not each.alias_info for each in returns)
    return OpKind(name, tuple(roles), only_views, gives, makes, _decomposes(func), name.startswith(RESIZING))


def _decomposes(func: Any) -> bool:
    """Whether an operation only calls others: some have a formula as well as kernels, with other bits."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return func._can_decompose() and not any(has(func.name(), key) for key in ("CPU", "CUDA"))


def _may_hold_tensors(kind: str) -> bool:
    inner = kind.replace("Optional", "").replace("List", "").strip("[]")
    return inner not in ("int", "float", "bool", "number", "str", "Device", "Generator", "SymInt")


class OpCall:
    """The storages of one operation, by their address in torch. `end` completes it with what the operation `made`."""

    __slots__ = ("given", "kind", "made", "reads", "written")

    def __init__(self, func: Any, args: Any, kwargs: Any):
        self.kind = kind_of(func)
        self.given: dict[int, torch.UntypedStorage] = {}
        self.made: dict[int, torch.UntypedStorage] = {}
        self.written: dict[int, bool] = {}
        """Whether all of a storage is overwritten."""
        given, written, read, count = self.given, self.written, set(), len(args)
        for role in self.kind.roles:
            value = args[role.number] if role.number < count else kwargs.get(role.name)
            if value is None:
                continue
            for tensor in _tensors(value):
                storage = self._storage(tensor)
                key = storage._cdata
                given[key] = storage
                if role.written:
                    written[key] = role.pure and _is_whole(tensor, storage)
                else:
                    read.add(key)
        self.reads = tuple(key for key in given if key in read or not written[key]) if written else tuple(given)

    def end(self, out: Any) -> None:
        """Add the storages of the operation's result."""
        for tensor in _tensors(out):
            storage = self._storage(tensor)
            if storage._cdata not in self.given:
                self.made[storage._cdata] = storage

    @property
    def writes(self) -> tuple[int, ...]:
        """Storages that the operation wrote, then those that it made."""
        return (*self.written, *self.made)

    @property
    def is_view(self) -> bool:
        """Whether the operation accessed no bytes: it returned views, or has no tensors."""
        return not (self.made or self.written) and (self.kind.gives_tensors or not self.given)

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            raise TraceError(
                f"{self.kind.name} has a tensor without a storage ({tensor.layout}): it cannot be recorded"
            ) from None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):  # `tree_leaves` is slow
        return iter((value,))
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _is_whole(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    return tensor.numel() * tensor.element_size() >= storage.nbytes() and tensor.is_contiguous()
