"""Compare two bundles: what is gone, new or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, TypeVar

import msgspec

from .bundle import Bundle
from .frozen_kernel import described
from .manifest import Code, Kernel, Support, Variant

Change = Literal["removed", "added", "changed"]
SIGNS: dict[Change, str] = {"removed": "-", "added": "+", "changed": "~"}

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A part of an entry that changed. `before`, `after`: SHA-256 of its files, as they are stored; `decisions`: of a
    plan, those that differ."""

    name: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.decisions)})" if self.decisions else self.name


@dataclass(frozen=True)
class Difference:
    """An entry that two bundles do not share. `kernel`: its name, empty for the runtime's own code; `variant`: dtypes
    and constants, empty for the whole kernel; `code`: sizes and target, empty for the whole variant."""

    change: Change
    kernel: str
    variant: str = ""
    code: str = ""
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        what = " ".join(part for part in (self.kernel, self.variant, self.code) if part)
        return f"{SIGNS[self.change]} {what}" + (f": {', '.join(map(str, self.parts))}" if self.parts else "")


def differences(one: Bundle, other: Bundle) -> tuple[Difference, ...]:
    """How `other` differs from `one`: kernels, their IR, code for sizes and targets, and the runtime's own code.

    Neither provenance nor signatures count.
    """
    return (*_of_kernels(one, other), *_of_support(one, other))


def _of_kernels(one: Bundle, other: Bundle) -> Iterator[Difference]:
    for name, before, after in _paired(one.manifest.kernels, other.manifest.kernels, _name):
        if before is None or after is None:
            yield _whole(before, name)
            continue
        if parts := kernel_parts(before, after):
            yield Difference("changed", name, parts=parts)
        for key, ours, theirs in _paired(before.variants, after.variants, variant_key, _ir):
            if ours is None or theirs is None:
                yield _whole(ours, name, key)
                continue
            if parts := variant_parts(ours, theirs):
                yield Difference("changed", name, key, parts=parts)
            yield from _of_codes(name, key, (one, ours), (other, theirs))


def _of_codes(
    kernel: str, variant: str, before: tuple[Bundle, Variant], after: tuple[Bundle, Variant]
) -> Iterator[Difference]:
    (one, ours), (other, theirs) = before, after
    pieces = [(one, code) for code in ours.codes], [(other, code) for code in theirs.codes]
    for key, its, others in _paired(*pieces, lambda piece: code_key(piece[1]), lambda piece: content_of(*piece)):
        if its is None or others is None:
            yield _whole(its, kernel, variant, key)
        elif parts := code_parts(its, others):
            yield Difference("changed", kernel, variant, key, parts)


def _of_support(one: Bundle, other: Bundle) -> Iterator[Difference]:
    """Of the runtime's own native code."""
    for key, before, after in _paired(one.manifest.support, other.manifest.support, _support_key):
        if before is None or after is None:
            yield _whole(before, "", code=key)
        elif (own := _hashes(one, [before.object])) != (others := _hashes(other, [after.object])):
            yield Difference("changed", "", code=key, parts=(Part("code", own, others),))


def _whole(before: object, kernel: str, variant: str = "", code: str = "") -> Difference:
    """An entry that is in one of the two only."""
    return Difference("added" if before is None else "removed", kernel, variant, code)


def _paired(
    ones: Iterable[T], others: Iterable[T], key: Callable[[T], str], content: Callable[[T], object] = id
) -> Iterator[tuple[str, T | None, T | None]]:
    """Entries of both, by key. Of several with one key, those with the same `content` are paired first."""
    grouped: dict[str, tuple[list[T], list[T]]] = {}
    for side, entries in enumerate((ones, others)):
        for entry in entries:
            grouped.setdefault(key(entry), ([], []))[side].append(entry)
    for name, (before, after) in grouped.items():
        for entry in [*before]:
            same = next((each for each in after if content(each) == content(entry)), None)
            if same is not None:
                before.remove(entry)
                after.remove(same)
                yield name, entry, same
        yield from ((name, ours, theirs) for ours, theirs in zip_longest(before, after))


def _name(kernel: Kernel) -> str:
    return kernel.name


def _ir(variant: Variant) -> str:
    return variant.ir


def _support_key(support: Support) -> str:
    return f"runtime {support.key[:12]} for {support.machine}"


def variant_key(variant: Variant) -> str:
    """A variant's dtypes, scalars and constants for people."""
    return described([*variant.tensors, *variant.scalars, *variant.constants])


def code_key(code: Code) -> str:
    """What a piece of code is for, for people."""
    which = described(code.shape) if code.role == "shape" else {"class": "other sizes", "plain": "any sizes"}[code.role]
    same = "".join(f", {one} is {other}" for one, other in code.same)
    apart = ", tensors at any address" if code.gpu is not None and not code.assumes.aligned else ""
    return f"({which}{same}{apart}) for {code.target}"


def kernel_parts(one: Kernel, other: Kernel) -> tuple[Part, ...]:
    """What two kernels of one name differ in, beside their code."""
    return _parts(one, other, {
        "parameters": "other parameters", "source": "the kernel's text has changed",
        "reference": "another module or file", "deterministic": "whether it is deterministic",
    })  # fmt: skip


def variant_parts(one: Variant, other: Variant) -> tuple[Part, ...]:
    """What two variants for the same dtypes and constants differ in, beside their code."""
    return _parts(one, other, {"ir": "other IR", "written": "written tensors", "in_place": "tensors that may be one"})


def _parts(one: object, other: object, names: Mapping[str, str]) -> tuple[Part, ...]:
    return tuple(Part(said) for name, said in names.items() if getattr(one, name) != getattr(other, name))


def code_parts(one: tuple[Bundle, Code], other: tuple[Bundle, Code]) -> tuple[Part, ...]:
    """What two pieces of code for the same calls differ in; nothing where they are the same."""
    (of_one, its), (of_other, others) = one, other
    parts = []
    plans = _hashes(of_one, [its.plan]), _hashes(of_other, [others.plan])
    if plans[0] != plans[1]:
        parts.append(Part("plan", *plans, _decisions(_plan(of_one, its), _plan(of_other, others))))
    binaries = _hashes(of_one, its.binaries), _hashes(of_other, others.binaries)
    if binaries[0] != binaries[1] or _calls(its) != _calls(others):
        parts.append(Part("code", *binaries))
    names = {"assumes": "assumptions", "limits": "limits", "machine": "machine", "features": "instructions"}
    return (*parts, *_parts(its, others, names))


def content_of(bundle: Bundle, code: Code) -> object:
    """What a piece of code is, whatever its files are called, and whatever limits it was planned for."""
    said = msgspec.structs.replace(code, plan="none", cpu=None, gpu=None, limits={})
    return said, _calls(code), _hashes(bundle, [code.plan, *code.binaries])


def _calls(code: Code) -> Any:
    """How code is called, without the names of its files."""
    if code.gpu is not None:
        launches = tuple(msgspec.structs.replace(each, binary="none") for each in code.gpu.launches)
        return msgspec.structs.replace(code.gpu, launches=launches)
    return None if code.cpu is None else msgspec.structs.replace(code.cpu, object="none")


def _hashes(bundle: Bundle, names: Iterable[str]) -> tuple[str, ...]:
    known = {entry.name: entry.sha256 for entry in bundle.manifest.files}
    return tuple(known[name] for name in names)


def _plan(bundle: Bundle, code: Code) -> dict[str, Any]:
    """A plan's decisions, also of versions that have others; nothing where it is no JSON."""
    try:
        found = msgspec.json.decode(bundle.read(code.plan))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return {name: value for name, value in found.items() if name.isidentifier()} if isinstance(found, dict) else {}


def _decisions(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys([*one, *other]) if one and other else ()
    return tuple(name for name in names if one.get(name) != other.get(name))
