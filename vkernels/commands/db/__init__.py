"""`vk db`: what the tuning database holds, and exchange with others; docs/database.md."""

from __future__ import annotations

import typer

from .exchange import export, import_, merge
from .listing import list_
from .prune import prune
from .show import show

app = typer.Typer(help="Look at the tuning database, and exchange entries with others.", no_args_is_help=True)
app.command("list")(list_)
app.command("show")(show)
app.command("export")(export)
app.command("import")(import_)
app.command("merge")(merge)
app.command("prune")(prune)
