"""The tuned plans for a call. Any trouble with a database gives one warning and none of its plans."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from vkernels.compiler.default_session import default_session
from vkernels.compiler.tuned_plans import PlanQuery, TunedPlan, TunedVariant
from vkernels.ir.canonical_names import names_of
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import Error
from vkernels.ir.plan import Plan

from .address import Address, address_of, site_files
from .entry import HASHES, Entry, Key, key_of

if TYPE_CHECKING:
    from .layers import Layered
    from .lookup import Column

_log = logging.getLogger(__name__)

SECONDS = 2.0
"""Time limit of a launch's query. After a time-out the database is not asked again."""


@dataclass
class _Source:
    """The database in use. `url`: None for the user's own file. `off`: none, or it failed. Replaced as a whole."""

    url: str | None = None
    off: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def sites(self) -> tuple[_Source, ...]:
        """The site's databases, which are asked beside the user's own. First asked for before anything failed."""
        if self.off or self.url is not None:
            return ()
        return tuple(_Source(str(file)) for file in site_files())


_source = _Source()
Found = TypeVar("Found")


def use_database(url: str | None) -> None:
    """Use the tuned plans of the database at a path or URL for kernels of this process; None: use no tuned plans.

    By default, kernels use the user's own database and those of the site, if they exist. Calls that were prepared
    before look up their plans again. Raises `OptionError` for an invalid address; whether the database exists is
    checked at the next call.
    """
    global _source
    if url is not None:
        address_of(url)
    _source = _Source(url, off=url is None)
    default_session().forget_tuned_plans()


def database_in_use() -> tuple[bool, str | None]:
    """Whether calls of this process look for tuned plans, and the database's path or URL: None for the user's own."""
    source = _source
    return source.url is not None or not source.off, source.url


def plans_for(asked: PlanQuery) -> tuple[TunedPlan, ...]:
    """The plans tuned for a call, the best first. Never raises; takes at most `SECONDS`."""
    found = [each for each in _found(asked, "question") if each.entry.constants.keys() <= asked.tunable]
    named = ((each, names_of(asked.built).to_author(each.entry.plan)) for each in found)
    return tuple(TunedPlan(plan, _named(each)) for each, plan in named if plan is not None)


def versions_for(asked: PlanQuery) -> tuple[TunedVariant, ...]:
    """The constants and plans tuned for a call that leaves constants open, the best first. Never raises.

    `asked.built` has the first value of each constant. Takes at most `SECONDS`.
    """
    found = _found(asked, "asked")
    return tuple(TunedVariant(each.entry.constants, _plan_of(each.entry), _named(each)) for each in found)


def _named(found: Layered) -> Callable[[], str]:
    return lambda: f"entry {found.entry.short} of {found.where}"


def _plan_of(entry: Entry) -> Callable[[KernelOp], Plan | None]:
    def plan_of(built: KernelOp) -> Plan | None:
        is_of = any(entry.key.kernel_hash == hashed(built) for hashed in HASHES)
        return names_of(built).to_author(entry.plan) if is_of else None

    return plan_of


def _found(asked: PlanQuery, column: Column) -> list[Layered]:
    """The entries of all layers, the preferred first."""
    source = _source
    sites, found = source.sites, _in_source(source, asked, column, is_site=False)
    if sites:
        wrong = _wrong(source, asked, column)
        others = (each for site in sites for each in _in_source(site, asked, column, is_site=True))
        found += [each for each in others if _what(each.entry) not in wrong]
    if not found:
        return []
    from .layers import preferred

    return preferred(found)


def _wrong(source: _Source, asked: PlanQuery, column: Column) -> list[object]:
    """The plans that gave wrong answers, by the user's own database: no other layer brings them back."""
    from .lookup import wrong_in
    from .ranking import contents_of

    file = None if source.off else address_of(source.url).file
    if file is None or not file.exists():
        return []
    documents = [document for key in _keys(asked) for document in wrong_in(file, column, key)]
    return [_what(entry) for entry in contents_of(documents).entries]


def _what(entry: Entry) -> object:
    return entry.plan, dict(entry.constants), entry.key.kernel_hash


def _in_source(source: _Source, asked: PlanQuery, column: Column, is_site: bool) -> list[Layered]:
    """The entries of one database, the best first; none if it is not there, or in trouble."""
    if source.off:
        return []
    try:
        address = address_of(source.url)
        if address.file is not None and not address.file.exists():
            return []
        from .layers import layered

        return layered(_entries(source, address, asked, column), is_site, str(address))
    except Exception as error:  # no launch fails because of the database
        _turn_off(source, error)
        return []


def _entries(source: _Source, address: Address, asked: PlanQuery, column: Column) -> tuple[Entry, ...]:
    from . import lookup, ranking  # noqa: F401 (before the time limit starts)

    if address.file is not None:
        found = _within_limit(lambda: _in_file(asked, column, address))
        if found is not None:
            return found
    from .database import Database  # before the time limit starts: this import may take a while

    def ask() -> tuple[Entry, ...]:
        with Database.open(source.url, read_only=True, seconds=SECONDS) as database:
            query = database.candidates if column == "question" else database.versions
            found = [entry for key in _keys(asked) for entry in query(key, asked.sizes, asked.limits)]
            return ranking.in_order(found, asked.sizes, asked.limits)

    return _within_limit(ask)


def _in_file(asked: PlanQuery, column: Column, address: Address) -> tuple[Entry, ...] | None:
    """The entries in an SQLite file, without SQLAlchemy; None if that needs a closer look."""
    from .lookup import documents_in
    from .ranking import is_variant, ordered

    keys = _keys(asked)
    documents: list[object] = []
    for key in keys:
        found = None if address.file is None else documents_in(address.file, column, key, asked.sizes)
        if found is None:
            return None
        documents += found

    def is_wanted(entry: Entry) -> bool:
        return entry.key in keys if column == "question" else any(is_variant(entry, key) for key in keys)

    return ordered(documents, is_wanted, asked.sizes, asked.limits, str(address))


def _keys(asked: PlanQuery) -> list[Key]:
    """The keys of a call: of this version, and of the earlier one."""
    return [key_of(asked.built, asked.sizes, asked.dtypes, asked.limits, asked.strides, hashed) for hashed in HASHES]


def _within_limit(ask: Callable[[], Found]) -> Found:
    """Run a query in a thread, because DNS lookups and dead servers may block for minutes. Raises `TimeoutError`."""
    future: Future[Found] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="vkernels-database", daemon=True).start()
    return future.result(SECONDS)


def _turn_off(source: _Source, error: Exception) -> None:
    with source.lock:
        was_off, source.off = source.off, True
    if was_off:
        return
    if isinstance(error, Error):
        reason = str(error)
    elif isinstance(error, TimeoutError):
        reason = f"{address_of(source.url)}: the tuning database does not answer within {SECONDS:g} s"
    else:
        said = isinstance(error, OSError) and error.strerror
        reason = f"{address_of(source.url)}: the tuning database cannot be read: {said or type(error).__name__}"
    _log.warning("%s; plans are chosen as if there were none", reason)
