"""All functions that the tester knows, by name: one file a family."""

from __future__ import annotations

from . import attention, dense, elements, experts, images, norms, reductions, rows, sparse

SUBJECTS = {
    subject.name: subject
    for family in (attention, dense, elements, experts, images, norms, reductions, rows, sparse)
    for subject in family.SUBJECTS
}
