"""An explanation as one HTML page: the sections of the text, with charts, and every compiler stage to unfold."""

from __future__ import annotations

from pathlib import Path

from vkernels.inspect.explain.explain import Explanation
from vkernels.inspect.explain.stages import stages_of
from vkernels.ir.write_file import write_file

from ..html import render
from . import charts, costs, texts

MAX_STAGE_CHARACTERS = 400_000


def write_page(path: Path, found: Explanation) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(found))


def page_of(found: Explanation) -> str:
    """Return the page as HTML."""
    findings = found.findings
    return render(
        "explain.html",
        title=texts.title_of(found),
        found=found,
        findings=findings,
        texts=texts,
        charts=charts,
        costs=costs,
        phase_numbers={phase.name: number % 6 for number, phase in enumerate(findings.phases)},
        stage_descriptions=stages_of(found.target.architecture, found.is_cpu),
        max_characters=MAX_STAGE_CHARACTERS,
    )
