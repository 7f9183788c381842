"""`vk memory`: what a training step does with device memory, and how it runs with less of it; docs/memory.md."""

from __future__ import annotations

import typer

from .calibrate import calibrate
from .place import place
from .plan import plan
from .record import record
from .run import run
from .simulate import simulate

app = typer.Typer(help="Record a training step, place its tensors, and run it with less memory.", no_args_is_help=True)
app.command("record")(record)
app.command("plan")(plan)
app.command("simulate")(simulate)
app.command("run")(run)
app.command("calibrate")(calibrate)
app.command("place")(place)
