"""`vk db`: show, prune and exchange the entries of the tuning database."""

from __future__ import annotations

from ..plain_help import Commands
from .entries import export, import_, list_, merge, prune, show
from .profiles import profiles

app = Commands(help="Show, prune and exchange the entries of the tuning database.", no_args_is_help=True)
app.command("list")(list_)
app.command("show")(show)
app.command("export")(export)
app.command("import")(import_)
app.command("merge")(merge)
app.command("prune")(prune)
app.command("profiles")(profiles)
