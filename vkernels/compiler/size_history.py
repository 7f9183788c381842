"""The sizes that a kernel was called with: they decide which calls get code for their sizes, and which for a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vkernels.ir.fork_safe import fork_safe_lock

from .size_classes import EXACT, LEVELS_ON_CPU, LEVELS_ON_GPU, SizeClass, class_at

MAX_EXACT = 64
"""Shapes of a kernel's calls that get code for their sizes: the first ones, those that were compiled ahead or tuned,
and those that run often."""

MAX_CLASSES = 12
"""Classes of one level; what comes after has a class of the next, coarser level. The last level has no such bound."""


class SizeHistory:
    """The sizes of the calls of one kernel with one signature on one architecture. May be used by several threads.

    The first shapes, as many as `exact_shapes`, are exact. A size that two calls differ in changes: later shapes know
    it by its class only. Sizes of 0 and 1 are exact always, since code for them takes other ways.
    """

    def __init__(self, on_gpu: bool, exact_shapes: int):
        self._levels = LEVELS_ON_GPU if on_gpu else LEVELS_ON_CPU
        self._on_gpu, self._exact_shapes = on_gpu, exact_shapes
        self._first: dict[str, int] = {}
        self._changing: set[str] = set()
        self._exact: set[tuple[int, ...]] = set()
        self._classes: list[dict[object, SizeClass]] = [{} for _ in self._levels]
        self._lock = fork_safe_lock()

    def class_of(self, sizes: Mapping[str, int], is_ready: Callable[[], bool]) -> SizeClass:
        """The class of a call. `is_ready`: whether there is a plan for exactly these sizes already."""
        shape = tuple(sizes.values())
        with self._lock:
            for name, size in sizes.items():
                if self._first.setdefault(name, size) != size:
                    self._changing.add(name)
            if len(self._exact) < self._exact_shapes:
                self._exact.add(shape)
            if shape in self._exact:
                return EXACT
            is_asked = len(self._exact) < MAX_EXACT
        if is_asked and is_ready() and self.make_exact(sizes):
            return EXACT
        with self._lock:
            return self._class_of(sizes)

    def make_exact(self, sizes: Mapping[str, int]) -> bool:
        """Let calls with these sizes have code of their own from now on. False if too many have."""
        shape = tuple(sizes.values())
        with self._lock:
            if len(self._exact) < MAX_EXACT:
                self._exact.add(shape)
            return shape in self._exact

    def _class_of(self, sizes: Mapping[str, int]) -> SizeClass:
        changing = {name: size for name, size in sizes.items() if name in self._changing and size > 1}
        if not changing:
            return EXACT
        others = tuple((name, size) for name, size in sizes.items() if name not in changing)
        found = EXACT
        for bounds, known in zip(self._levels, self._classes, strict=True):
            found = class_at(bounds, changing, self._on_gpu)
            key = found.key, others
            if key in known or len(known) < MAX_CLASSES or bounds is self._levels[-1]:
                return known.setdefault(key, found)
        return found
