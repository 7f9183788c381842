"""The builder that operations call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..operation import current

if TYPE_CHECKING:
    from ..frontend.complex_numbers import ComplexBuilder


def current_builder() -> ComplexBuilder:
    """The builder of the kernel that is being built. Raises `UnsupportedError` outside a kernel."""
    return cast("ComplexBuilder", current())
