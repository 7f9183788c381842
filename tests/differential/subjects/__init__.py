"""All functions that the tester knows, by name: one file a family."""

from __future__ import annotations

from . import attention, dense, elements, experts, images, norms, reductions, rows, sparse

FAMILIES = (attention, dense, elements, experts, images, norms, reductions, rows, sparse)
SUBJECTS = {subject.name: subject for family in FAMILIES for subject in family.SUBJECTS}
BOUNDS = {name: bound for family in FAMILIES for name, bound in family.BOUNDS.items()}
"""What each function's results may err by."""
