"""The dialect's text is the same module in every form, in xDSL and in upstream MLIR."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, f32, f64, i64
from xdsl.ir import Block, Region

from vkernels.ir.dialect import VK, KernelOp, RangeOp, SizeOp, TensorArgumentType, YieldOp
from vkernels.ir.text import parse_module, print_module

NAMES = ("structure", "access", "compute", "words", "scaled", "interleave", "scans")
FILES = [Path(__file__).with_name(f"{name}.mlir") for name in NAMES]
FORMS = [(generic, locations) for generic in (False, True) for locations in (False, True)]


def every_operation() -> ModuleOp:
    """One module with all that the golden files hold."""
    return parse_module("\n".join(file.read_text() for file in FILES))


def same(left: ModuleOp, right: ModuleOp) -> bool:
    """Equal in structure, and in the names of values and arguments."""
    return left.is_structurally_equivalent(right) and print_module(left) == print_module(right)


def locations_of(module: ModuleOp) -> list[object]:
    found: list[object] = []
    for op in module.walk():
        found.append(op.location)
        found += [argument.location for region in op.regions for block in region.blocks for argument in block.args]
    return found


def located(module: ModuleOp) -> ModuleOp:
    """Give every operation and block argument a place of its own."""
    lines = iter(range(1, 10**6))
    for op in module.walk():
        op.location = _place(next(lines))
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.location = _place(next(lines))
    return module


def _place(line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr("kernel.py"), IntAttr(line), IntAttr(3))


def test_the_golden_files_use_every_operation():
    used = {type(op) for op in every_operation().walk()}
    assert set(VK.operations) <= used


@pytest.mark.parametrize(("generic", "locations"), FORMS)
def test_parsing_what_was_printed_gives_the_same_module(generic: bool, locations: bool):
    module = every_operation()
    again = parse_module(print_module(module, generic, locations))
    assert same(module, again)
    assert print_module(again, generic, locations) == print_module(module, generic, locations)


@pytest.mark.parametrize("generic", [False, True])
def test_locations_of_operations_and_arguments_survive(generic: bool):
    module = located(every_operation())
    again = parse_module(print_module(module, generic, locations=True))
    assert locations_of(again) == locations_of(module)


@pytest.mark.parametrize("generic", [False, True])
def test_values_keep_their_names(generic: bool):
    kernel = KernelOp("named", [("x", TensorArgumentType(["M"], f32)), ("eps", f64)])
    size = SizeOp("M")
    size.result.name_hint = "rows"
    body = Block(arg_types=[i64, i64])
    body.args[0].name_hint, body.args[1].name_hint = "step", "carried"
    body.add_op(YieldOp([body.args[1]]))
    kernel.body.block.add_ops([size, RangeOp("k", size.result, size.result, [size.result], Region(body))])
    again = parse_module(print_module(ModuleOp([kernel]), generic))
    found = [op for op in again.walk() if isinstance(op, KernelOp | RangeOp)]
    kernel_, range_ = found
    assert isinstance(kernel_, KernelOp)
    assert isinstance(range_, RangeOp)
    assert [argument.name_hint for argument in kernel_.body.block.args] == ["x", "eps"]
    assert kernel_.parameter("eps").type == f64
    assert [argument.name_hint for argument in range_.body.block.args] == ["step", "carried"]
    assert range_.axis.data == "k"
    assert range_.start.name_hint == "rows"


def test_upstream_mlir_accepts_the_generic_form():
    mlir = pytest.importorskip("iree.compiler.ir", reason="iree-base-compiler, for upstream MLIR, is not installed")
    module = located(every_operation())
    inline = {"print_generic_op_form": True, "enable_debug_info": True, "use_local_scope": True}
    with mlir.Context() as upstream:
        upstream.allow_unregistered_dialects = True
        theirs = mlir.Module.parse(print_module(module, generic=True, locations=True))
        assert theirs.operation.verify()
        printed = theirs.operation.get_asm(**inline)
        reprinted = mlir.Module.parse(printed).operation.get_asm(**inline)
    assert reprinted == printed
    again = parse_module(printed)
    assert module.is_structurally_equivalent(again)
    assert locations_of(again) == locations_of(module)
