"""Commands on pages are commands of `vk`: their names, options and arguments parse. Nothing is run."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from vkernels.commands import main
from vkernels.commands.app import app

from . import commands_page

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "measurements"),
]
BASH = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The arguments of each `vk` in the page's blocks of bash."""
    found = []
    for block in BASH.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&><")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if set(word) <= set("|;&><"):
                    if words and Path(words[0]).name == "vk":
                        found.append(words[1:])
                    words = []
                else:
                    words.append(word)
    return found


def parse(arguments: list[str]) -> None:
    """Parse as `vk` does; raises `click.UsageError`."""
    command, name = typer.main.get_command(app), "vk"
    context = command.make_context(name, list(arguments))
    while isinstance(command, click.Group) or hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_parse(page):
    for arguments in commands(page):
        try:
            parse(arguments)
        except Exception as error:
            pytest.fail(f"{page.name}: vk {shlex.join(arguments)}: {getattr(error, 'message', error)!r}")


def test_the_page_and_the_manual_page_have_every_command(golden):
    golden(ROOT / "docs" / "commands.md", commands_page.page())
    golden(ROOT / "docs" / "man" / "vk.1", commands_page.manual())


def test_verbose_commands_print_what_is_logged():
    log = logging.getLogger("vkernels")
    before = log.level
    try:
        levels = []
        for options in ([], ["-v"], ["-vv"]):
            with pytest.raises(SystemExit):
                main([*options, "targets", "--help"])
            levels.append(log.level)
        assert levels == [before, logging.INFO, logging.DEBUG]
    finally:
        log.setLevel(before)


def test_a_wrong_option_is_found():
    with pytest.raises(Exception, match="No such option"):
        parse(["check", "softmax_rows", "--target", "t4"])


def test_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    block = "```bash\n.venv/bin/vk check a \\\n  --x 1 | jq .  # a note\nls; vk doctor > out\n```\n"
    page.write_text(f"{block}```text\nvk no\n```\n")
    assert commands(page) == [["check", "a", "--x", "1"], ["doctor"]]


@pytest.mark.parametrize("command", ["build", "tune", "memory plan", "farm join", "trace"])
def test_help_names_arguments_without_types_of_python(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    expected = {
        "build": "vk build [OPTIONS] KERNEL…\n",
        "tune": "vk tune [OPTIONS] [KERNEL…]\n",
        "memory plan": "vk memory plan [OPTIONS] TRACE\n",
        "farm join": "vk farm join [OPTIONS] [ADDRESS]\n",
        "trace": "vk trace [OPTIONS] SCRIPT.py [ARGS…]\n",
    }
    assert text.startswith(f"Usage: {expected[command]}")
    assert not re.search(r"<(list|str|path|int|float)", text)
