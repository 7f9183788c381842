"""Compile launches of plain Triton kernels in other processes, into Triton's own cache on disk.

A launch then finds its binary there, by Triton's own key: it never gets another one than it would have compiled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .triton_kernels import TritonSourceError, innermost, message_of

Launch = dict[str, Any]
"""A specialisation of a kernel as plain data: what Triton writes of it, the target, and the hash of its source."""


def launch_to_compile(kernel: Any, run: Callable[[], object]) -> Launch | None:
    """What a launch of a kernel would compile; nothing is compiled or launched.

    `run`: launches it, with `warmup=True`. None if the binary is in memory, or if the launch passes what cannot be
    written as plain data. Raises what Triton raises for arguments that do not fit.
    """
    from triton import knobs
    from triton.compiler import ASTSource
    from triton.runtime import driver

    function, found = innermost(kernel), []

    def note(*, compile: Mapping[str, Any], **_: Any) -> bool:  # Triton's name
        (attributes,) = compile["configs"]
        source = ASTSource(function, compile["signature"], compile["constants"], attributes)
        written = json.loads(compile["specialization_data"])
        found.append({**written, "target": vars(driver.active.get_current_target()), "hash": source.hash()})
        return True  # Triton's launch ends here

    before = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = note
    try:
        run()
    except TypeError:  # of JSON, among others: the launch itself then raises it again
        return None
    finally:
        knobs.runtime.jit_cache_hook = before
    return found[0] if found else None


def compile_launch(kernel: Any, launch: Launch) -> bool:
    """Compile what another process would compile for its launch. Triton keeps the binary on disk.

    Returns whether this is the same kernel: there may be other values in its globals here. Raises `TritonSourceError`
    with Triton's reasons where it does not compile.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = innermost(kernel)
    constants = {
        tuple(place): _constant(value)
        for place, value in zip(launch["constant_keys"], launch["constant_vals"], strict=True)
    }
    attributes = {tuple(place): value for place, value in zip(launch["attrs_keys"], launch["attrs_vals"], strict=True)}
    signature = {name: _as_tuples(value) for name, value in launch["signature"].items()}
    source = ASTSource(function, signature, constants, attributes)
    if source.hash() != launch["hash"]:
        return False
    options = {name: _as_tuples(value) for name, value in launch["options"].items()}
    try:
        triton.compile(source, target=GPUTarget(**launch["target"]), options=options)
    except OSError:  # of the cache
        return False
    except Exception as error:  # Triton's compiler raises anything
        raise TritonSourceError(message_of(function, error)) from error
    return True


def _constant(value: Any) -> Any:
    import triton.language as tl

    if isinstance(value, dict):
        return tl.constexpr(_as_tuples(value["constexpr"])) if "constexpr" in value else value
    return tl.dtype(value) if isinstance(value, str) and tl.dtype.is_dtype(value) else _as_tuples(value)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
