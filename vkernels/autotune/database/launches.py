"""What launches ask: the tuned plans for a call. Whatever is wrong with the database is one warning and no plan."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from vkernels.compiler.default_session import default_session
from vkernels.compiler.tuned_plans import PlanQuery, TunedPlan, TunedVariant
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import Error

from .address import address_of
from .entry import Entry
from .key import Key, kernel_hash, key_of

if TYPE_CHECKING:
    from .database import Database

_log = logging.getLogger(__name__)

SECONDS = 2.0
"""What a launch waits for a database, at most, and only once if it waits in vain."""


@dataclass
class _Asking:
    """`url`: None for the user's own file. `off`: nobody is asked, or not again. Replaced as a whole."""

    url: str | None = None
    off: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_asking = _Asking()


def use_database(url: str | None) -> None:
    """Let kernels of this process run by the tuned plans of the database at a path or URL; of none if that is None.

    Unless this is called they go by the user's own database, where there is one. What is prepared already is asked for
    anew. Raises `OptionError` for what is no address; whether there is a database is seen at the next call.
    """
    global _asking
    if url is not None:
        address_of(url)
    _asking = _Asking(url, off=url is None)
    default_session().forget_tuned_plans()


def plans_for(asked: PlanQuery) -> tuple[TunedPlan, ...]:
    """The plans tuned for a call, the best first. Never raises, and waits `SECONDS` at most."""
    found = _found(asked, lambda database, key: database.candidates(key, asked.sizes, asked.limits))
    return tuple(TunedPlan(each.plan, _named(each)) for each in found if each.constants.keys() <= asked.tunable)


def versions_for(asked: PlanQuery) -> tuple[TunedVariant, ...]:
    """What was tuned for a call that leaves tunable constants open, the best first; `asked.built` has their first
    values. Never raises, and waits as long."""
    found = _found(asked, lambda database, key: database.versions(key, asked.sizes, asked.limits))
    return tuple(
        TunedVariant(each.plan, _named(each), each.constants, partial(_is_of, each.key.kernel_hash)) for each in found
    )


def _named(entry: Entry) -> Callable[[], str]:
    """What messages call an entry of the database that is asked; `vk db show` prints the same."""
    url = _asking.url
    return lambda: f"entry {entry.short} of {address_of(url)}"


def _is_of(wanted: str, built: KernelOp) -> bool:
    return kernel_hash(built) == wanted


def _found(asked: PlanQuery, look: Callable[[Database, Key], tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """What a look into the database gives; nothing where there is none, or it is in trouble."""
    asking = _asking
    if asking.off:
        return ()
    try:
        address = address_of(asking.url)
        if address.file is not None and not address.file.exists():
            return ()
        from .database import Database  # which may take a while to import, for no fault of a database's

        def ask() -> tuple[Entry, ...]:
            key = key_of(asked.built, asked.sizes, asked.dtypes, asked.limits, asked.strides)
            with Database.open(asking.url, read_only=True, seconds=SECONDS) as database:
                return look(database, key)

        return _soon(ask)
    except Exception as error:  # a launch fails for no database
        _give_up(asking, error)
        return ()


def _soon(ask: Callable[[], tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """What comes of it, unless it takes too long: names may be looked up for minutes, and so may a dead server."""
    future: Future[tuple[Entry, ...]] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="vkernels-database", daemon=True).start()
    return future.result(SECONDS)


def _give_up(asking: _Asking, error: Exception) -> None:
    with asking.lock:
        said, asking.off = asking.off, True
    if said:
        return
    if isinstance(error, TimeoutError):
        reason = f"{address_of(asking.url)}: the tuning database does not answer within {SECONDS:g} s"
    else:
        reason = str(error) if isinstance(error, Error) else type(error).__name__
    _log.warning("%s; plans are chosen as if there were none", reason)
