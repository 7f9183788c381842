"""scf loops and branches, carried over: tiles are tensors, memory is its base."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from xdsl.ir import Block, Region, SSAValue

from ..common import terminator_of
from .state import TtirState
from .warp_roles import keep_roles


def lower_for(state: TtirState, operation: ForOp) -> None:
    source, initial = operation.body.block, state.carried(operation.iter_args)
    bounds = [state.value(value) for value in (operation.lb, operation.ub, operation.step)]
    body = Block(arg_types=[i64, *(value.type for value in initial)])
    with state.build.region(body):
        state.define(source.args[0], body.args[0])
        state.bind(source.args[1:], body.args[1:], operation.iter_args)
        state.walk(source)
        state.build.add(YieldOp(*state.carried(terminator_of(source).operands)))
    op = ForOp(bounds[0], bounds[1], bounds[2], initial, body)
    keep_roles(operation, op)
    state.build.add(op)
    state.bind(operation.results, op.results, operation.iter_args)


def lower_if(state: TtirState, operation: IfOp) -> None:
    regions, yielded = [], []
    sources: Sequence[SSAValue] = ()
    for region in (operation.true_region, operation.false_region):
        if not region.blocks:
            continue
        body = Block()
        with state.build.region(body):
            state.walk(region.block)
            sources = terminator_of(region.block).operands
            yielded = state.carried(sources)
            state.build.add(YieldOp(*yielded))
        regions.append(Region(body))
    otherwise = regions[1] if len(regions) > 1 else None
    op = IfOp(state.value(operation.cond), [value.type for value in yielded], regions[0], otherwise)
    state.build.add(op)
    state.bind(operation.results, op.results, sources)


def lower_while(state: TtirState, operation: WhileOp) -> None:
    sources = operation.before_region.block, operation.after_region.block
    initial = state.carried(operation.arguments)
    before = Block(arg_types=[value.type for value in initial])
    with state.build.region(before):
        state.bind(sources[0].args, before.args, operation.arguments)
        state.walk(sources[0])
        condition = terminator_of(sources[0])
        assert isinstance(condition, ConditionOp), "verified"
        passed = state.carried(condition.args)
        state.build.add(ConditionOp(state.value(condition.condition), *passed))
    after = Block(arg_types=[value.type for value in passed])
    with state.build.region(after):
        state.bind(sources[1].args, after.args, condition.args)
        state.walk(sources[1])
        state.build.add(YieldOp(*state.carried(terminator_of(sources[1]).operands)))
    op = WhileOp(initial, [value.type for value in passed], Region(before), Region(after))
    state.build.add(op)
    state.bind(operation.results, op.results, condition.args)
