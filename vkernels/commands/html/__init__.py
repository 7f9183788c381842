"""HTML reports: one self-contained file each, rendered from `templates/` around one page skeleton."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formatting import format_bytes, format_count, format_plan, format_seconds, printable

if TYPE_CHECKING:
    from jinja2 import Environment

    from .charts import Plots


def render(template: str, plots: Plots | None = None, **context: Any) -> str:
    """Render a page. Every text in it is escaped, and so are control characters.

    `plots`: the interactive plots of the page; a page without them has no script.
    """
    page = _environment().get_template(template)
    return page.render(scripts=plots.scripts() if plots else (), hashes=plots.hashes() if plots else (), **context)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("vkernels.commands.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = (Path(__file__).parent / "templates" / "style.css").read_text()
    environment.filters.update(
        bytes=format_bytes, count=format_count, seconds=format_seconds, plan=format_plan,
        short=lambda text, length: text if len(text) <= length else f"{text[: length - 1]}…",
    )  # fmt: skip
    return environment


def _finalize(value: object) -> object:
    # Only markup of the templates' own stays.
    from markupsafe import Markup

    return value if isinstance(value, Markup) else printable(str(value), newlines=True)
