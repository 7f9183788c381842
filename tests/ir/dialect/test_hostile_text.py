"""Text from outside is a module or an `IRError`; it is never a traceback of ours or of xDSL's."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.errors import IRError
from vkernels.ir.opt import main
from vkernels.ir.text import parse_module, print_module

FILES = [Path(__file__).with_name(f"{name}.mlir") for name in ("structure", "access", "compute")]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[%#!@^]?[\w.$]+|->|\S')
TROUBLE = [
    "",
    "-1",
    "?",
    "i1",
    "f32",
    "9223372036854775808",
    "[",
    "{",
    '"x"',
    "array<i32: 1>",
    "0x7FFF",
    "loc(unknown)",
]


def kernels() -> list[str]:
    """Every kernel of the golden files by itself, in both forms."""
    modules = [parse_module(file.read_text()) for file in FILES]
    alone = [ModuleOp([op.clone()]) for module in modules for op in module.ops]
    return [print_module(module, generic) for module in alone for generic in (False, True)]


def mixed_up(text: str, others: list[str], chance: random.Random) -> str:
    """The text with one to three of its tokens replaced: mostly by one of their kind, which parses, else by trouble."""
    for _ in range(chance.randint(1, 3)):
        place = chance.choice(list(TOKEN.finditer(text)))
        tokens = TOKEN.findall(chance.choice([text, *others]))
        alike = [token for token in tokens if kind(token) == kind(place.group())]
        new = chance.choice(alike if alike and chance.random() < 0.8 else TROUBLE)
        text = text[: place.start()] + new + text[place.end() :]
    return text


def kind(token: str) -> str:
    return "a" if token[0].isalpha() else "0" if token[0].isdigit() else token[0]


def only_ir_errors(text: str | bytes) -> None:
    """Parse, and print what parses: nothing but `IRError` may be raised."""
    try:
        module = parse_module(text, "hostile.mlir")
    except IRError as error:
        assert str(error)  # noqa: PT017
        return
    for generic in (False, True):
        assert print_module(parse_module(print_module(module, generic)), generic) == print_module(module, generic)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}",
        "vk.kernel",
        "vk.kernel @f(",
        "vk.kernel @f() {",
        "vk.unknown",
        "nobody.knows",
        b"\xff\xfe",
        '"\\FF"',
        "vk.kernel @f(%x: !vk.tensor<[M], nothing>) {}",
        "vk.kernel @f(%x: !vk.tensor<[-3], f32>) {}",
        "vk.kernel @f(%x: !vk.tensor<[M]>) {}",
        "vk.kernel @f(%x: !vk.tensor<M, f32>) {}",
        "vk.kernel @f(%x: !vk.nothing<[M], f32>) {}",
        f"vk.kernel @f(%x: !vk.tensor<[{'9' * 5000}], f32>) {{}}",
        "vk.kernel @f(%x: !vk.tensor<[M], tensor<4xf32, #vk.axes<>>>) {}",
        "{-# external_resources: {} #-}",
        "arith.constant 0x7FFFFFFFFFFF : f32",
        "arith.constant dense<99999999999> : tensor<4xi8>",
        'vk.boundary "\\FF"',
        'vk.size "\\C3\\28"',
        "vk.mapped @f() { %a = vk.position i : tensor<4x4xi64, #vk.axes<i>> }",
        "vk.mapped @f(%x: i64) { %a = vk.load %x[i] : i64 -> tensor<4xi64, #vk.axes<i>> }",
        '"vk.kernel"() : () -> ()',
        '"vk.kernel"() <{sym_name = 3, parameters = 4}> ({}) : () -> ()',
        '"vk.kernel"() <{sym_name = "f", parameters = ["x"]}> ({^bb0: ^bb1:}) : () -> ()',
        '"vk.range"() <{axis = "k"}> ({}) : () -> ()',
        '"vk.load"() <{operandSegmentSizes = array<i32: 9, 9, 9, 9>}> : () -> f32',
        '"vk.load"() <{operandSegmentSizes = array<i64: -1>}> : () -> f32',
        '"vk.phase"() <{phase = "p"}> ({"vk.yield"() : () -> ()}, {}) : () -> ()',
        "[" * 100_000,
        "vk.mapped @f() { " + 'vk.phase "p" { ' * 5_000,
        "vk.mapped @f() { " + 'vk.phase "p" { ' * 150 + "}" * 151,
        "vk.mapped @f() attributes {x = " + "[" * 5_000 + "]" * 5_000 + "} {}",
    ],
)
def test_malformed_text_is_an_ir_error_or_a_module(text: str | bytes):
    only_ir_errors(text)


@pytest.mark.slow
def test_text_cut_off_anywhere_is_an_ir_error_or_a_module():
    for text in kernels():
        for end in range(0, len(text), 97):
            only_ir_errors(text[:end])


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_text_with_its_tokens_mixed_up_is_an_ir_error_or_a_module(seed: int):
    chance = random.Random(seed)
    texts = kernels()
    for _ in range(100):
        only_ir_errors(mixed_up(chance.choice(texts), texts, chance))


@pytest.mark.parametrize("arguments", [["--verify-diagnostics", "--nonsense"], ["--passes", "nonsense"], ["-p", "a{"]])
def test_an_unknown_option_or_pass_is_code_2(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "empty.mlir"
    file.write_text("builtin.module {}")
    assert code_of([str(file), *arguments]) == 2
    assert "nonsense" in capsys.readouterr().err or "a{" in arguments


@pytest.mark.parametrize("text", ["vk.kernel @f(", "vk.mapped @f() { vk.yield }", "[" * 100_000, '"\\FF"'])
def test_vk_opt_refuses_broken_text_with_a_message_and_code_2(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "broken.mlir"
    file.write_text(text)
    assert code_of([str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("vk-opt: ")
    assert "Traceback" not in captured.err


def test_vk_opt_says_which_file_is_missing_or_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert code_of([str(tmp_path / "missing.mlir")]) == 2
    assert "missing.mlir" in capsys.readouterr().err
    (tmp_path / "text.txt").write_text("")
    assert code_of([str(tmp_path / "text.txt")]) == 2
    assert "text.txt" in capsys.readouterr().err


def code_of(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as stopped:
        return stopped.code
