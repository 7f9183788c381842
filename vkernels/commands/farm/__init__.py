"""`vk farm`: tune on many machines, and simulate the order of jobs there."""

from __future__ import annotations

from ..plain_help import Commands
from . import jobs, machines, simulate

app = Commands(help="Tune kernels of many users on many machines (with Ray).", no_args_is_help=True)
app.command("start")(machines.start)
app.command("join")(machines.join)
app.command("user")(machines.user)
app.command("stop")(machines.stop)
app.command("submit")(jobs.submit)
app.command("status")(jobs.status)
app.command("logs")(jobs.logs)
app.command("cancel")(jobs.cancel)
app.command("simulate")(simulate.simulate)
