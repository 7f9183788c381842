"""Show a bundle as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vkernels.bundles.bundle import Bundle
from vkernels.bundles.compare import variant_key
from vkernels.bundles.frozen_kernel import described
from vkernels.bundles.manifest import Code
from vkernels.targets.instruction_sets import lacking
from vkernels.targets.present import present_targets
from vkernels.targets.target import Target

from ..formatting import printable
from ..results import print_table, table_of

if TYPE_CHECKING:
    from rich.console import Console


def as_json(bundle: Bundle) -> dict[str, Any]:
    """The manifest, and the ids of the keys that signed it."""
    signatures = [{"algorithm": each.algorithm, "key": each.key} for each in bundle.signatures]
    return {"manifest": msgspec.to_builtins(bundle.manifest), "signatures": signatures}


def show_bundle(console: Console, bundle: Bundle) -> None:
    """Print where a bundle comes from, and its code by kernel."""
    manifest = bundle.manifest
    made = manifest.provenance
    compilers = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    built = f"{bundle.path.name}: built {made.time} by vkernels {made.vkernels} ({compilers})"
    console.print(printable(built), soft_wrap=True)
    if made.command:
        console.print(printable(f"  {made.command}"), soft_wrap=True)
    for signature in bundle.signatures:
        console.print(
            f"  signed by {signature.algorithm} key {signature.key}; `vk bundle verify` checks it", soft_wrap=True
        )
    if not bundle.signatures:
        console.print("  not signed")
    sizes = {entry.name: entry for entry in manifest.files}
    has_gpus = any(code.gpu is not None for code in manifest.codes)
    gpus = [target for target in present_targets() if target.vendor != "cpu"] if has_gpus else []
    for kernel in manifest.kernels:
        for variant in kernel.variants:
            console.print("")
            title = printable(f"{kernel.name}: {variant_key(variant)}")
            table = table_of("sizes", "target", "rung", "bytes", "here", right=("bytes",), title=title)
            for code in variant.codes:
                stored = sum(sizes[name].size for name in dict.fromkeys(code.binaries))
                row = _sizes(code), code.target, code.rung, f"{stored:,}", _here(code, gpus)
                table.add_row(*map(printable, row))
            print_table(table, console)


def _sizes(code: Code) -> str:
    same = "".join(f", {one} is {other}" for one, other in code.same)
    bounds = ", ".join(f"{name} ≤ {most:,}" for name, most in code.assumes.most.items())
    match code.role:
        case "shape":
            apart = ", at any address" if code.gpu is not None and not code.assumes.aligned else ""
            return described(code.shape) + same + apart
        case "class":
            return f"others{f', {bounds}' if bounds else ''}"
    return "any, any strides"


def _here(code: Code, gpus: Sequence[Target]) -> str:
    if code.gpu is not None:
        return "yes" if any(gpu.architecture == code.machine for gpu in gpus) else f"no: {code.machine}"
    missing = lacking(code.machine, code.features)
    return f"no: {', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}" if missing else "yes"
