"""Tasks that run side by side or in turns, and gaps of GPUs that were filled, on the board of all processes, where
`vk coordinate status` reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..pool_board_ir import LOW
from ..pool_shared_ir import (
    COMPANIES,
    COMPANY_FIGURES,
    COMPANY_KERNELS,
    COMPANY_WHAT,
    COMPANY_WORDS,
    COUNTERS_OF_PROCESS,
    FILLS,
)
from .cohost import CompanyStats
from .priority import joined_board
from .shown_contract import as_bytes, as_text

if TYPE_CHECKING:
    from .shared_board import SharedBoard

WHAT_BYTES = 8 * (COMPANY_KERNELS - COMPANY_WHAT)
SEPARATOR, SCALE, UNKNOWN = "; ", 1e6, -1
_shown: tuple[SharedBoard, tuple[tuple[str, ...], ...]] | None = None


def show_companies(companies: Sequence[CompanyStats]) -> None:
    """Write the latest of them, if this process is on the board. Not for two threads at once."""
    global _shown
    board = joined_board()
    if board is None:
        return
    latest = tuple(companies[-COMPANIES:])
    names = tuple((each.what, *each.kernels) for each in latest)
    is_new = _shown is None or _shown[0] is not board or _shown[1] != names
    for address, each in zip(board.company_places(), latest, strict=False):
        words = (ctypes.c_int64 * COMPANY_WORDS).from_address(address)
        if is_new:
            words[0] = 0
            ctypes.memmove(address + 8 * COMPANY_WHAT, as_bytes(each.what, WHAT_BYTES), WHAT_BYTES)
            kernels = as_bytes(SEPARATOR.join(each.kernels))
            ctypes.memmove(address + 8 * COMPANY_KERNELS, kernels, len(kernels))
        gain = UNKNOWN if each.gain is None else round(SCALE * each.gain)
        words[COMPANY_FIGURES : COMPANY_FIGURES + 6] = [
            int(each.is_beside), round(SCALE * each.needed), round(SCALE * each.oversubscription), gain, each.beside,
            each.turns,
        ]  # fmt: skip
        words[0] = board.number
    _shown = board, names


def company_of(words: Sequence[int]) -> CompanyStats:
    """A company on the board, from its words, whatever is in them."""
    is_beside, needed, over, gain, beside, turns = words[COMPANY_FIGURES : COMPANY_FIGURES + 6]
    kernels = as_text(words[COMPANY_KERNELS:])
    return CompanyStats(
        tuple(kernels.split(SEPARATOR)) if kernels else (), as_text(words[COMPANY_WHAT:COMPANY_KERNELS]),
        needed / SCALE, over / SCALE, bool(is_beside), None if gain == UNKNOWN else gain / SCALE, beside, turns,
    )  # fmt: skip


def show_fills(fills: int, seconds: float) -> None:
    """Write how many launches of low priority went into gaps of a GPU, and their predicted seconds."""
    board = joined_board()
    if board is not None and board.own_address:
        at = board.own_address + 8 * (COUNTERS_OF_PROCESS + 8 * LOW + FILLS)
        (ctypes.c_int64 * 2).from_address(at)[:] = [fills, round(1e9 * seconds)]
