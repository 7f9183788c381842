"""`vk farm start`, `join`, `user` and `stop`: a farm's head, its machines and its users."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from vkernels.ir.errors import SetupError

from ..options import Json
from ..results import check_writable, console_for, write_results
from .jobs import Login

STOP_SECONDS = 60.0

Folder = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="What the farm keeps. Default: a folder of the user's data.")
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="Database of the results. Default: the user's own file, on one machine only."
    ),
]
Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address of this machine that users and machines reach it by.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port for users; 0: a free one, the same each time.")]
RayPort = Annotated[int, typer.Option(min=0, max=65535, help="Port for machines; 0: a free one, the same each time.")]
Turn = Annotated[float, typer.Option(min=1.0, help="Seconds of one turn of a search.")]
Bound = Annotated[float, typer.Option(min=1.0, help="Seconds from arrival to end that the order keeps while it can.")]
Fairness = Annotated[float, typer.Option(min=0.0, help="How strongly users are held to equal shares.")]
Order = Annotated[str, typer.Option("--policy", metavar="NAME", help="Order of jobs: bounded or fifo.")]

Wake = Annotated[
    str, typer.Option(metavar="COMMAND", help="Run this if machines are short; VKERNELS_FARM_COUNT says how many.")
]
Release = Annotated[
    str, typer.Option(metavar="COMMAND", help="Run this after a machine has left; VKERNELS_FARM_HOST is its name.")
]
Buffer = Annotated[int, typer.Option(min=0, help="Machines to keep on beyond those at work.")]
Most = Annotated[int, typer.Option(min=1, help="Machines to have on at most.")]
Broker = Annotated[bool, typer.Option("--broker", help="Let idle machines measure what was only modelled so far.")]

Address = Annotated[str | None, typer.Argument(metavar="ADDRESS", help="HOST:PORT that `vk farm start` printed.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Copy of the head's file that lets machines join.")
]
Offered = Annotated[
    list[str] | None,
    typer.Option(
        "--slice",
        metavar="NAME,…",
        help="Slices to lend: cpu, cpu:cores=1, nvidia:0. Default: such as these, all GPUs.",
    ),
]
Patience = Annotated[float, typer.Option(min=1.0, help="Seconds to try to join again where the head is away.")]


def start(
    folder: Folder = None,
    db: Db = None,
    host: Host = "127.0.0.1",
    port: Port = 0,
    ray_port: RayPort = 0,
    policy: Order = "bounded",
    turn: Turn = 10.0,
    bound: Bound = 14400.0,
    fairness: Fairness = 1.0,
    wake: Wake = "",
    release: Release = "",
    buffer: Buffer = 1,
    most: Most = 1000,
    broker: Broker = False,
    json: Json = None,
) -> None:
    """Start the head of a tuning farm in the background, or go on with one that was stopped.

    It listens on this machine alone unless `--host` says otherwise. The tasks of a farm execute their users' code on
    the machines that join.
    """
    check_writable(json)

    from vkernels.autotune.database.address import default_file
    from vkernels.farm import service
    from vkernels.farm.client import default_folder

    here = folder or default_folder()
    settings = service.Settings(
        db or str(default_file()), host, port, ray_port, policy, turn, bound, fairness, wake, release, buffer, most,
        broker,
    )  # fmt: skip
    farm = service.start(here, settings)
    address, token = service.ray_address(here), here / service.TOKEN
    console = console_for(json, is_wide=True)
    console.print(f"the farm runs; its page is http://{farm.address}/ (user and token: {here / service.LOGIN})")
    console.print(f"machines join with: vk farm join {address} --token-file {token}", soft_wrap=True)
    write_results(
        json, "farm start", address=farm.address, ray_address=address, folder=str(here), token_file=str(token)
    )


def join(
    address: Address = None,
    token_file: TokenFile = None,
    slice_: Offered = None,
    patience: Patience = 600.0,
    folder: Folder = None,
) -> None:
    """Lend this machine's slices to a farm until the farm stops, or Ctrl-C.

    Without arguments, join the farm that was started on this machine.
    """
    from vkernels.farm import ray_processes, service
    from vkernels.farm.client import default_folder
    from vkernels.farm.offers import offers_here, slices_here

    ray_processes.check_ray()
    here = folder or default_folder()
    names = [name.strip() for text in slice_ for name in text.split(",")] if slice_ else slices_here()
    offers = offers_here(names)
    console = console_for()
    for offer in offers:
        console.print(f"{offer.count} × {offer.slice}: {offer.device}")
    ray_processes.join(
        address or service.ray_address(here), token_file or here / service.TOKEN, offers, here / "node.log", patience,
        console.print,
    )  # fmt: skip


def user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Login file to write, for the user.")],
    login: Login = None,
) -> None:
    """Let a user submit to the farm: write a login file, or one with a new token. Only who started the farm may."""
    check_writable(to)

    from vkernels.farm.client import Farm

    Farm.from_login(login).add_user(name).to_login(to)
    console_for().print(f"{to}: the login of {name}; give it to nobody else")


def stop(login: Login = None) -> None:
    """Stop the farm and let its machines leave; jobs that have not ended go on when it is started again."""
    from vkernels.farm.client import Farm

    farm = Farm.from_login(login)
    farm.stop()
    end = time.monotonic() + STOP_SECONDS
    while time.monotonic() < end:
        try:
            farm.status()
        except SetupError:
            console_for().print("the farm has stopped")
            return
        time.sleep(0.2)
    raise SetupError(f"{farm.address}: the farm still answers after {STOP_SECONDS:.0f} s")
