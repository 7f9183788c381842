"""An explanation as JSON; docs/json.md documents the fields."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vkernels.inspect.explain.explain import Explanation

from ..check.results import launch_as_json

SCHEMA = 1


def as_json(found: Explanation, triton: str) -> dict[str, Any]:
    """Return everything but the texts of stages."""
    findings, case, target = found.findings, found.case, found.target
    modelled, proposal = findings.modelled, findings.proposal
    return {
        "schema_version": SCHEMA, "command": "explain", "triton": triton, "kernel": case.source.shown,
        "target": target.key, "architecture": target.architecture, "dtype": case.dtype, "shape": dict(case.shape),
        "fits": found.fits, "reason": found.reason, "limits": asdict(found.limits), "budget": dict(findings.budget),
        "extents": dict(findings.extents), "source": [asdict(line) for line in findings.source],
        "phases": [asdict(phase) for phase in findings.phases],
        "homes": [asdict(kept) for kept in findings.kept],
        "plan": dict(findings.plan), "plan_origin": findings.origin, "tuned_constants": dict(findings.tuned),
        "pinned": [[each.field, each.about] for each in findings.decisions if each.pinned],
        "needs": asdict(findings.totals) if findings.totals is not None else None,
        "needs_unknown": findings.without_needs, "predicted_misfit": findings.misfit,
        "modelled_seconds": modelled.seconds if modelled is not None else None,
        "bottleneck": modelled.bottleneck if modelled is not None else None,
        "modelled": asdict(modelled) if modelled is not None else None,
        "rung": findings.rung or None,
        "proposal": asdict(proposal) if proposal is not None else None,
        "launches": [launch_as_json(launch) for launch in found.launches],
        "native": asdict(findings.native) if findings.native is not None else None,
        "stages": list(found.stages),
    }  # fmt: skip
