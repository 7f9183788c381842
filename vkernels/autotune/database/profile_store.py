"""The store of profiles of calls: the database in use. Any trouble with it gives a warning and no profiles."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.ir.errors import Error

from .address import address_of
from .database import Database
from .launches import SECONDS, database_in_use

_log = logging.getLogger(__name__)


def stored_profiles(key: CallKey) -> list[CallProfile]:
    """The profiles of calls with a key in the database in use. Never raises."""
    is_used, url = database_in_use()
    try:
        address = address_of(url) if is_used else None
        if address is None or (address.file is not None and not address.file.exists()):
            return []
        with Database.open(url, read_only=True, seconds=SECONDS) as database:
            return database.profiles(key)
    except Error as error:
        _log.warning("profiles of calls are not read: %s", error)
        return []


def store_profiles(profiles: Sequence[CallProfile]) -> None:
    """Add profiles to the database in use, if there is one. Never raises."""
    is_used, url = database_in_use()
    if not is_used:
        return
    try:
        with Database.open(url, seconds=SECONDS) as database:
            database.add_profiles(profiles)
    except Error as error:
        _log.warning("profiles of calls are not stored: %s", error)
