"""Load a bundle's code for this machine's CPU: the functions of its object files, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from vkernels.compiler.timeline import note_loaded
from vkernels.ir.errors import BundleError
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json
from vkernels.runtime.objects import LoadedObject, load_object

from .bundle import Bundle, as_bundle_error
from .manifest import Code


@dataclass(frozen=True)
class LoadedCode:
    """Native functions of a kernel, as the runtime binds them (`NativeCode`), and the plan that they were made by."""

    prepare: int
    launches: tuple[int, ...]
    sizes: tuple[str, ...]
    buffers: int
    workspace: int
    plan: Plan
    _object: LoadedObject = field(repr=False)
    in_turn: int = 0


def load_code(bundle: Bundle, code: Code) -> LoadedCode:
    """Load the code of a record. Raises `BundleError` where its functions are not what the manifest states."""
    cpu = code.cpu
    assert cpu is not None, "code for a CPU"
    where = f"{bundle.path.name}: {cpu.object}"
    data = bundle.read(cpu.object)
    with as_bundle_error():
        loaded = load_object(data, where)
    names = cpu.prepare, *cpu.launches
    if missing := [name for name in names if name not in loaded.addresses]:
        raise BundleError(f"{where}: there is no function {missing[0]}")
    note_loaded(loaded.addresses, data)
    prepare, *launches = (loaded[name] for name in names)
    in_turn = loaded.addresses.get(f"{cpu.prepare.removesuffix('_prepare')}_in_turn", 0)
    plan = read_plan(bundle, code)
    return LoadedCode(prepare, (*launches,), cpu.sizes, cpu.buffers, cpu.workspace, plan, loaded, in_turn)


def read_plan(bundle: Bundle, code: Code) -> Plan:
    """The plan of a record. Raises `BundleError` for a file that is no plan."""
    where = f"{bundle.path.name}: {code.plan}"
    try:
        found: Any = msgspec.json.decode(bundle.read(code.plan))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{where}: not JSON: {error}") from None
    with as_bundle_error():
        return plan_from_json(found, where)
