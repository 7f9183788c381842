"""Where code is kept: whether it can be, and nobody else can write there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from vkernels.ir.disk_cache import default_folder

from .finding import Finding, Status

AREA = "storage"
LITTLE = 1 << 30
"""Bytes free, below which a full cache may not find room."""


def storage() -> Iterator[Finding]:
    yield from _cache(default_folder())


def _cache(folder: Path) -> Iterator[Finding]:
    yield _folder("code cache", folder)
    there = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
    if there is None:
        return
    free = shutil.disk_usage(there).free
    if free < LITTLE:
        yield Finding(AREA, "free space", f"{free / 2**20:.0f} MiB", Status.NOTE, f"{there} has little room for code")
    else:
        yield Finding(AREA, "free space", f"{free / 2**30:.1f} GiB")


def _folder(what: str, folder: Path) -> Finding:
    """A folder that may not be there yet."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        parent = next(each for each in folder.parents if each.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            return Finding(AREA, what, f"{folder}, not made yet")
        return Finding(AREA, what, f"{folder} cannot be made", Status.PROBLEM, f"this user cannot write to {parent}")
    except OSError as error:
        return Finding(AREA, what, f"{folder}: {error.strerror}", Status.PROBLEM, "every process compiles anew")
    if not stat.S_ISDIR(status.st_mode):
        return Finding(AREA, what, f"{folder} is no folder", Status.PROBLEM, "move it away; links are not followed")
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        advice = "its code is not run, so every process compiles anew: set XDG_CACHE_HOME to a folder of this user"
        return Finding(AREA, what, f"{folder} is another user's", Status.PROBLEM, advice)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        advice = f"code that others could have written is not run: chmod go-w {folder}"
        return Finding(AREA, what, f"{folder} can be written by others", Status.PROBLEM, advice)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(AREA, what, f"{folder} is only read", Status.NOTE, "new code is compiled in every process")
    return Finding(AREA, what, str(folder))
