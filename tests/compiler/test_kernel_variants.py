"""What a variant of a kernel is refused for is said again in full."""

from __future__ import annotations

import pytest

from vkernels.compiler.kernel_variants import KernelVariants
from vkernels.ir.errors import PlanError, SourceRange


def test_a_variant_is_refused_again_in_the_same_words() -> None:
    def refuse() -> None:
        raise PlanError("no", SourceRange(__file__, 3, 1, 5), "row", "Take another home.")

    variants, texts = KernelVariants(), []
    for ask in (lambda: variants.code("a key", refuse), lambda: variants.code("a key", refuse)):
        with pytest.raises(PlanError) as caught:
            ask()
        texts.append((str(caught.value), caught.value.about, caught.value.help))
    with pytest.raises(PlanError) as caught:
        variants.known_code("a key")
    assert {*texts, (str(caught.value), caught.value.about, caught.value.help)} == {texts[0]}
    assert texts[0][2] == "Take another home."
