"""Snapshots of torch's CUDA allocator: read one as blocks to place, or write a pool as one for torch's viewer.

`torch.cuda.memory._dump_snapshot(path)` writes them, and https://pytorch.org/memory_viz shows them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from vkernels.ir.errors import FileError
from vkernels.ir.write_file import write_file

from .imports import Problem
from .placed import PlacedBlock
from .strict_json import MAX_FILE_BYTES
from .trace import Lifetime

SUFFIXES = (".pickle", ".pkl")
BASE = 0x7F00_0000_0000
"""Address of the pool in written snapshots."""
SIGN = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""What an event does to the bytes that torch has reserved."""
LIVING = ("active_allocated", "active_awaiting_free", "active_pending_free")
NOT_THE_PROGRAM = ("/torch/", "/runpy.py", "<frozen", "<string>")

Bytes = Annotated[int, Meta(ge=0, le=1 << 60)]


class Frame(Struct, frozen=True):
    """A line of the call stack, innermost first."""

    filename: str
    line: int
    name: str


class Event(Struct, frozen=True):
    """Something that the allocator did. `addr` and `size` are of memory; some events have none."""

    action: str
    addr: int = 0
    size: int = 0
    frames: tuple[Frame, ...] = ()


class Block(Struct, frozen=True):
    """A piece of a segment when the snapshot was taken."""

    size: Bytes
    state: str
    address: int | None = None
    frames: tuple[Frame, ...] = ()


class Segment(Struct, frozen=True):
    """Memory that torch has reserved when the snapshot was taken; older versions of torch give blocks no address."""

    address: int
    total_size: Bytes
    blocks: tuple[Block, ...]
    device: int = 0


class Snapshot(Struct, frozen=True):
    """The parts of a snapshot that are read. `device_traces`: the history of each GPU."""

    segments: tuple[Segment, ...]
    device_traces: tuple[tuple[Event, ...], ...]


@dataclass(frozen=True)
class RecordedHistory:
    """Blocks of one GPU, over the moments at which something was allocated or freed.

    `reserved`: the most bytes that torch had reserved meanwhile.
    """

    problem: Problem
    device: int
    reserved: int


class _PlainUnpickler(pickle.Unpickler):
    """Loads only lists, dictionaries, texts and numbers, so that a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it refers to {module}.{name}; a snapshot has only plain data")


def read_snapshot(path: Path | str, device: int | None = None) -> RecordedHistory:
    """Read a snapshot with history (`torch.cuda.memory._record_memory_history()`).

    `device`: the GPU; default: the one with the most events. A block's name is the line of the program that allocated
    it. Raises `FileError` for other files, and where there is no history.
    """
    path = Path(path)
    found = _load(path)
    if device is None:
        device = max(range(len(found.device_traces)), key=lambda n: len(found.device_traces[n]), default=0)
    events = found.device_traces[device] if device < len(found.device_traces) else ()
    if not events:
        raise FileError(f"{path}: no history; call torch.cuda.memory._record_memory_history() before the step")
    segments = [each for each in found.segments if each.device == device]
    blocks, names, count = _blocks(events, segments)
    if not blocks:
        raise FileError(f"{path}: its history has no allocations")
    problem = Problem(f"{path.name}, GPU {device}", tuple(blocks), count, names=tuple(names))
    return RecordedHistory(problem, device, _reserved(events, segments))


def _load(path: Path) -> Snapshot:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FileError(f"{path}: more than {MAX_FILE_BYTES} bytes")
        with path.open("rb") as file:
            data = _PlainUnpickler(file).load()
        return msgspec.convert(data, Snapshot)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except msgspec.ValidationError as error:
        raise FileError(f"{path}: not a snapshot of torch's allocator: {error}") from None
    except (pickle.UnpicklingError, ValueError, EOFError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise FileError(f"{path}: not a snapshot of torch's allocator: {error or 'not a pickle'}") from None


def _blocks(events: Sequence[Event], segments: Sequence[Segment]) -> tuple[list[Lifetime], list[str], int]:
    """Blocks, their names and the number of moments. What was there before, or still is at the end, is there all the
    time until or from then."""
    blocks: list[Lifetime] = []
    names: list[str] = []
    open_: dict[int, tuple[int, Event]] = {}
    completed = {each.addr for each in events if each.action == "free_completed"}
    now = 0
    for event in events:
        if event.action == "alloc":
            open_[event.addr] = now, event
        elif event.action in ("free_completed", "free") or (
            event.action == "free_requested" and event.addr not in completed
        ):
            start, made = open_.pop(event.addr, (0, event))
            if now > start and made.size > 0:
                blocks.append(Lifetime(start, now, made.size))
                names.append(_name(made.frames if made is not event else (), len(names)))
        else:
            continue
        now += 1
    for start, made in open_.values():
        blocks.append(Lifetime(start, now, made.size))
        names.append(_name(made.frames, len(names)))
    for block, address in _there(segments):
        if address not in open_ and block.size:
            blocks.append(Lifetime(0, now, block.size))
            names.append(_name(block.frames, len(names)))
    return blocks, names, max(1, now)


def _there(segments: Iterable[Segment]) -> Iterable[tuple[Block, int]]:
    """The blocks in use when the snapshot was taken, with their addresses."""
    for segment in segments:
        starts = accumulate((block.size for block in segment.blocks), initial=segment.address)
        for block, start in zip(segment.blocks, starts, strict=False):
            if block.state in LIVING:
                yield block, start if block.address is None else block.address


def _reserved(events: Sequence[Event], segments: Sequence[Segment]) -> int:
    """The most bytes reserved at once: counted back from the segments at the end."""
    size = most = sum(each.total_size for each in segments)
    for event in reversed(events):
        size -= SIGN.get(event.action, 0) * event.size
        most = max(most, size)
    return most


def _name(frames: Sequence[Frame], number: int) -> str:
    """The innermost line of Python outside torch, or a number."""
    python = [each for each in frames if each.filename.endswith(".py")]
    own = [each for each in python if not any(part in each.filename for part in NOT_THE_PROGRAM)]
    for each in (own or python)[:1]:
        text = f"{each.filename.rsplit('/', 1)[-1]}:{each.line} {each.name}"
        return "".join(letter for letter in text if letter.isprintable())[:200]
    return f"block {number}"


def write_snapshot(path: Path | str, blocks: Sequence[PlacedBlock], count: int, seconds: Sequence[float]) -> None:
    """Write one iteration of `count` moments as a snapshot with history. Raises as `write_file`.

    `seconds`: when each moment begins. The pool is one segment; blocks that are there at the beginning come first.
    """
    events = [_event("segment_alloc", BASE, max((each.top for each in blocks), default=0), 0.0)]
    frees: list[list[PlacedBlock]] = [[] for _ in range(count + 1)]
    makes: list[list[PlacedBlock]] = [[] for _ in range(count)]
    for each in blocks:
        if each.end > count:
            makes[0].append(each)
            frees[each.end - count].append(each)
        makes[each.start].append(each)
        frees[min(each.end, count)].append(each)
    for moment in range(count):
        time = seconds[moment]
        for each in frees[moment]:
            events += [
                _event(f"free_{part}", BASE + each.offset, each.size, time) for part in ("requested", "completed")
            ]
        events += [_event("alloc", BASE + each.offset, each.size, time, _frames(each)) for each in makes[moment]]
    data = {"segments": [_segment(frees[count], events[0]["size"])], "device_traces": [events]}
    write_file(path, pickle.dumps(data, protocol=4))


def _event(action: str, address: int, size: int, seconds: float, frames: Sequence[Any] = ()) -> dict[str, Any]:
    event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": round(seconds * 1e6)}
    return {**event, "frames": list(frames)}


def _frames(block: PlacedBlock) -> list[dict[str, Any]]:
    """The name of the block, as the viewer shows it, above its line in the program."""
    frames = [{"name": block.name, "filename": "", "line": 0}]
    where, _, name = block.source.partition(" in ")
    file, _, line = where.rpartition(":")
    if line.isdecimal():
        frames.append({"name": name, "filename": file, "line": int(line)})
    return frames


def _segment(left: Iterable[PlacedBlock], size: int) -> dict[str, Any]:
    """The pool at the end of the iteration: blocks in the order of addresses, and gaps."""
    parts: list[dict[str, Any]] = []
    top = 0
    for each in sorted(left, key=lambda block: block.offset):
        parts += _gap(top, each.offset)
        part = {"address": BASE + each.offset, "size": each.size, "requested_size": each.size}
        parts.append({**part, "state": "active_allocated", "frames": _frames(each)})
        top = each.top
    used = sum(part["size"] for part in parts if part["state"] != "inactive")
    return {
        "device": 0, "address": BASE, "total_size": size, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": used, "active_size": used,
        "requested_size": used, "frames": [], "blocks": parts + _gap(top, size),
    }  # fmt: skip


def _gap(start: int, end: int) -> list[dict[str, Any]]:
    gap = {"address": BASE + start, "size": end - start, "requested_size": 0, "state": "inactive", "frames": []}
    return [gap] if end > start else []
