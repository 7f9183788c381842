"""`vk memory`: record a training step, plan its device memory, and run it with less."""

from __future__ import annotations

import typer

from .calibrate import calibrate
from .place import place
from .plan import plan
from .record import record
from .run import run
from .simulate import simulate

app = typer.Typer(
    help="Record a training step, plan its memory, and run it with less device memory.", no_args_is_help=True
)
app.command("record")(record)
app.command("plan")(plan)
app.command("simulate")(simulate)
app.command("run")(run)
app.command("calibrate")(calibrate)
app.command("place")(place)
