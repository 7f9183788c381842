"""A GPU that is none, in place of `cuda_api.Cuda`: memory is the CPU's, and what streams are asked for is done late, in
any order that streams and events allow, drawn from a seed. A wait that is left out shows as wrong bits."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections import deque

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

STYLES = ("any", "late", "lanes first", "program first")
"""Anything; nothing before it must; lanes as early as they can and the program as late; and the reverse."""


class Mark:
    """One recording of an event."""

    def __init__(self, stream):
        self.stream, self.come, self.at = stream, False, None

    def reach(self):
        self.come, self.at = True, time.perf_counter()


class Event:
    """As torch's: waiting for one that was never recorded is no waiting."""

    def __init__(self, gpu):
        self._gpu, self._mark = gpu, None

    def record(self, stream):
        self._mark = mark = Mark(stream)
        self._gpu.ask(stream, mark)

    def query(self):
        with self._gpu.lock:
            self._gpu.go_on()
            return self._mark is None or self._mark.come

    def synchronize(self):
        with self._gpu.lock:
            if self._mark is not None:
                self._gpu.finish(self._mark)

    def elapsed_time(self, other):
        """Milliseconds between two that have come."""
        return (other.mark.at - self.mark.at) * 1e3

    @property
    def mark(self):
        return self._mark


class Stream:
    """What it was asked for and has not done: work (a function), marks to set, marks of others to wait for."""

    def __init__(self, gpu, name):
        self.gpu, self.name, self.asked = gpu, name, deque()

    def wait_event(self, event):
        if event.mark is not None:
            self.gpu.ask(self, ("wait", event.mark))


class FakeCuda:
    """Its methods are those of `cuda_api.Cuda`."""

    def __init__(self, seed):
        self.device, self.lock = torch.device("cpu"), threading.RLock()
        self._draw = random.Random(seed)
        self.style = STYLES[seed % len(STYLES)]
        self.streams = []
        self.programs = [self.stream(), self.stream()]
        self.current = self.programs[0]
        self.copies = 0
        self._free, self._memory, self._sizes, self.pinned_now = {}, [], {}, {}

    # What streams do

    def ask(self, stream, what):
        with self.lock:
            stream.asked.append(what)
            self.go_on()

    def go_on(self):
        """As much as the style and the draw have it, of what can be done."""
        if self.style == "late":
            return
        for _ in range(self._draw.choice((0, 0, 1, 2, 9))):
            ready = [each for each in self.streams if self._can(each)]
            if self.style == "lanes first":
                ready = [each for each in ready if each not in self.programs]
            elif self.style == "program first":
                ready = [each for each in ready if each in self.programs]
            if not ready:
                return
            self._do(self._draw.choice(ready))

    def finish(self, mark):
        """What a mark needs, and nothing else."""
        while not mark.come:
            assert mark.stream.asked, "an event that never comes"
            head = mark.stream.asked[0]
            if isinstance(head, tuple) and not head[1].come:
                self.finish(head[1])
            else:
                self._do(mark.stream)

    def synchronize(self):
        """All that the program's streams were asked for."""
        with self.lock:
            for stream in self.programs:
                event = Event(self)
                event.record(stream)
                event.synchronize()

    def _can(self, stream):
        return bool(stream.asked) and (not isinstance(stream.asked[0], tuple) or stream.asked[0][1].come)

    def _do(self, stream):
        head = stream.asked.popleft()
        if isinstance(head, Mark):
            head.reach()
        elif not isinstance(head, tuple):
            with _disable_current_modes():  # of whoever made it go on
                head()

    # The methods of `Cuda`

    def takes(self, storage):
        return storage.data_ptr() in self._sizes

    def program(self):
        return self.current

    def stream(self):
        self.streams.append(Stream(self, f"stream {len(self.streams)}"))
        return self.streams[-1]

    def event(self):
        return Event(self)

    timed_event = event

    def copy(self, stream, to, source):
        assert to.numel() == source.numel()
        size, where, whence = to.numel(), to.data_ptr(), source.data_ptr()
        assert abs(where - whence) >= size, "a GPU cannot copy bytes onto themselves"
        self.copies += 1
        to[:0].copy_(source[:0])  # as of the real one, modes that are not disabled see an operation on both
        self.ask(stream, lambda: ctypes.memmove(where, whence, size) and None)

    def allocate(self, size):
        return _filled(size, 0xA5)

    def allocated(self, anew=False):
        return None

    def storage(self, size):
        """As torch's allocator: what was freed is given out again at once, to whom the program's order protects."""
        with self.lock:
            free = self._free.setdefault(size, [])
            if not free:
                self._memory.append(_filled(size, 0x5A))
                free.append(self._memory[-1].data_ptr())
                self._sizes[free[-1]] = size
            address = free.pop()
        return self.at(address, size, _Block(self, address, size)).untyped_storage()

    def give_back(self, address, size):
        self._free[size].append(address)

    def pinned(self, size):
        return _filled(size, 0xC3)

    def pin(self, address, size):
        assert address not in self.pinned_now
        self.pinned_now[address] = size

    def unpin(self, address):
        del self.pinned_now[address]

    def at(self, address, size, owner):
        array = (ctypes.c_char * size).from_address(address)
        array.owner = owner  # a storage keeps the buffer that it was made from
        return torch.frombuffer(array, dtype=torch.uint8)


def _filled(size, byte):
    """On the host, at once: nothing that is asked of the GPU."""
    return torch.frombuffer(bytearray([byte]) * size, dtype=torch.uint8)


class _Block:
    def __init__(self, gpu, address, size):
        self._of = gpu, address, size

    def __del__(self):
        gpu, address, size = self._of
        gpu.give_back(address, size)


class OnGpu(TorchDispatchMode):
    """While it is entered, torch's operations are asked of the fake GPU's current stream, and done when that comes to
    it: results are known by their shapes alone until then, as on a GPU."""

    def __init__(self, gpu):
        super().__init__()
        self.gpu, self.asked, self.at_once = gpu, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.name == "aten::lift_fresh":  # from a number of the host
            return self._empty(args[0]).copy_(args[0])
        if all(each.alias_info and not each.alias_info.is_write for each in func._schema.returns):
            return func(*args, **kwargs)  # only views
        shapes = None if torch.Tag.nondeterministic_seeded in func.tags else self._shapes(func, args, kwargs)
        if shapes is None:
            return self._now(func, args, kwargs)
        out, made = shapes
        self.asked += 1
        late_args, late_kwargs = tree_map(_alias, (args, kwargs))
        places = [_alias(each) for each in made]

        def work():
            results, _ = tree_flatten(func(*late_args, **late_kwargs))
            for place, n in zip(places, made_at, strict=True):
                if place is not None:
                    place.copy_(results[n])

        made_at = [n for n, each in enumerate(tree_flatten(out)[0]) if any(each is other for other in made)]
        self.gpu.ask(self.gpu.program(), work)
        return out

    def _shapes(self, func, args, kwargs):
        """The results, in memory that is not written yet, and those of them that are new; None where that cannot be."""
        known = {}

        def meta(value):
            if not isinstance(value, torch.Tensor):
                return value
            if value.numel() and value.untyped_storage().data_ptr() == 0:
                raise NotImplementedError
            known.setdefault(id(value), (torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device="meta"), value))  # fmt: skip
            return known[id(value)][0]

        kwargs = {name: torch.device("meta") if name == "device" else value for name, value in kwargs.items()}
        try:
            results, spec = tree_flatten(func(*tree_map(meta, args), **tree_map(meta, kwargs)))
        except (NotImplementedError, RuntimeError):
            return None
        out, made = [], []
        for each in results:
            if not isinstance(each, torch.Tensor):
                if each is not None:
                    return None
                out.append(None)
                continue
            same = next((old for new, old in known.values() if new is each), None)
            base = next(
                (old for new, old in known.values() if new.untyped_storage()._cdata == each.untyped_storage()._cdata),
                None,
            )
            if same is not None:
                out.append(same)
            elif base is not None:
                out.append(base.as_strided(each.size(), each.stride(), base.storage_offset() + each.storage_offset()))
            else:
                out.append(self._empty(each))
                made.append(out[-1])
        return tree_unflatten(out, spec), made

    def _now(self, func, args, kwargs):
        """What needs bytes on the host, or random numbers: after all that was asked."""
        self.at_once += 1
        self.gpu.synchronize()
        given = {each.untyped_storage()._cdata for each in tree_flatten((args, kwargs))[0] if _is(each)}

        def adopted(value):
            if not _is(value) or value.untyped_storage()._cdata in given:
                return value
            copy = self._empty(value)
            return copy.copy_(value)

        return tree_map(adopted, func(*args, **kwargs))

    def _empty(self, like):
        size = like.untyped_storage().nbytes()
        out = torch.empty(0, dtype=like.dtype)
        if not size:
            return torch.empty_strided(like.size(), like.stride(), dtype=like.dtype)
        return out.set_(self.gpu.storage(size), like.storage_offset(), like.size(), like.stride())


def _is(value):
    return isinstance(value, torch.Tensor)


def _alias(value):
    """The same bytes, wherever the storage points later."""
    if not _is(value) or not value.numel():
        return value.clone() if _is(value) else value
    size = value.untyped_storage().nbytes()
    memory = (ctypes.c_char * size).from_address(value.untyped_storage().data_ptr())
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    out = torch.empty(0, dtype=value.dtype)
    return out.set_(flat.untyped_storage(), value.storage_offset(), value.size(), value.stride())
