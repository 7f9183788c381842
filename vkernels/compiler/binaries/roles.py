"""How many warps of a program have each role, where Triton gives loops of a kernel to different warps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .find_loops import Region
from .instructions import Kind

_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_ROLE = re.compile(r"^ *partition\d+\(.*\) num_warps\((\d+)\)", re.MULTILINE)
_MULTIPLIES = re.compile(r"ttng\.(?:warp_group_dot|tc_gen5_mma(?:_scaled)?) |tt\.dot(?:_scaled)? ")
_COPIES = re.compile(r"ttng\.async_tma_(?:copy_global_to_local|gather)|ttg\.async_copy_global_to_local|tt\.load ")


def warps_of_roles(regions: Sequence[Region], ttgir: str) -> Mapping[int, int]:
    """The warps that have each role of a kernel's loops; nothing where its warps have no roles.

    Triton's text says how many warps each part of it has, not where their code is: parts and loops that multiply are
    told by that, then those that copy; all others are the work of the warps that the program was given.
    """
    parts = _ROLE.split(ttgir)
    given = _WARPS.search(ttgir)
    if len(parts) < 3 or given is None:
        return {}
    texts = list(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    found = {0: int(given[1])}
    for role in {region.role for region in regions} - {0}:
        own = [region for region in regions if region.role == role]
        code = [each for region in own for each in (*region.instructions, *region.elected)]
        sign = next((sign for sign, kinds in _SIGNS.items() if any(each.kind in kinds for each in code)), None)
        able = [] if sign is None else [warps for warps, text in texts if sign.search(text)]
        found[role] = max(able, default=int(given[1]))
    return found


_SIGNS = {_MULTIPLIES: (Kind.TENSOR,), _COPIES: (Kind.BULK_COPY, Kind.COPY, Kind.GLOBAL_LOAD)}
