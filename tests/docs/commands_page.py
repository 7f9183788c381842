"""What `vk` says of itself, as a page of the documentation and as a manual page, made from the command tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from vkernels.commands.app import app
from vkernels.commands.plain_help import plain_name

HEAD = """# Commands
<!-- written by pytest --update-goldens -->
What `vk` and its commands take. `vk COMMAND --help` prints the same, and `man vk` where the manual page is
[installed](install.md#shell-completion-and-manual-page). [JSON](json.md) describes
what each command writes, and exit codes.
"""
HIDDEN = ("help", "install_completion", "show_completion")


@dataclass(frozen=True)
class Entry:
    """One command with its words ("vk db list"), its help, its usage, and its arguments and options with their help."""

    words: str
    text: str
    usage: str
    arguments: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    has_commands: bool


def entries() -> list[Entry]:
    """All commands in the order of `vk --help`, each group before its commands."""
    return list(_walk(typer.main.get_command(app), None, "vk"))


def _walk(command: Any, parent: Any, name: str) -> Iterator[Entry]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    options, arguments = [], []
    for parameter in command.get_params(context):
        if parameter.name in HIDDEN or getattr(parameter, "hidden", False):
            continue
        name, text = parameter.get_help_record(context) or ("", "")
        if parameter.param_type_name == "argument":
            arguments.append((plain_name(name, "argument"), _plain(text)))
        elif name:
            options.append((plain_name(name, "option"), _plain(text)))
    commands = {each: command.get_command(context, each) for each in _names(command, context)}
    yield Entry(
        context.command_path,
        _plain(command.help or ""),
        command.get_usage(context).removeprefix("Usage: ").replace("\n", " "),
        tuple(arguments),
        tuple(options),
        bool(commands),
    )
    for each, inner in commands.items():
        yield from _walk(inner, context, each)


def _names(command: Any, context: Any) -> list[str]:
    return command.list_commands(context) if hasattr(command, "list_commands") else []


def _plain(text: str) -> str:
    """Paragraphs of one line each."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def page() -> str:
    """The page in Markdown."""
    parts = [HEAD]
    for entry in entries():
        parts.append(f"\n{'##' if entry.words.count(' ') < 2 else '###'} {entry.words}\n{entry.text}\n")
        if not entry.has_commands:
            parts.append(f"\n```text\n{re.sub(' +', ' ', entry.usage)}\n```\n")
        for title, rows in (("argument", entry.arguments), ("option", entry.options)):
            if rows:
                parts.append(f"\n| {title} | |\n|---|---|\n")
                parts += [f"| `{_cell(name)}` | {_cell(text).replace('<', '&lt;')} |\n" for name, text in rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("\n\n", " ").replace("|", "\\|")


def manual() -> str:
    """The page in the language of `man`."""
    first, *others = entries()
    lines = ['.TH VK 1 "" "vkernels" "User Commands"', ".SH NAME", "vk \\- " + _roff(first.text), ".SH SYNOPSIS"]
    lines += [".B vk", _roff(first.usage.removeprefix("vk").strip()), ".SH OPTIONS", *_rows(first.options)]
    lines += [".SH COMMANDS"]
    for entry in others:
        lines += [f".SS {_roff(entry.words)}", *_roff(entry.text).split("\n\n")]
        if not entry.has_commands:
            lines += [".PP", _roff(re.sub(" +", " ", entry.usage))]
        lines += _rows(entry.arguments + entry.options)
    lines += [".SH EXIT STATUS", "0 success, 1 a finding, 2 a user's mistake, 3 a problem of the environment,"]
    lines += ["70 a bug of vkernels, 130 interrupted."]
    return "\n".join(line for text in lines for line in text.splitlines() if line.strip()) + "\n"


def _rows(rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, text in rows:
        yield f".TP\n.B {_roff(name)}\n{_roff(text) or '.br'}"


def _roff(text: str) -> str:
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", safe, flags=re.MULTILINE)
