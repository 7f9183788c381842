"""The results as JSON, as `docs/json.md` describes them."""

from __future__ import annotations

from typing import Any

from vkernels.sparse_network.bench.baselines import BaselineResult
from vkernels.sparse_network.bench.harness import Results, Size
from vkernels.sparse_network.bench.machine_peaks import MachinePeaks
from vkernels.sparse_network.bench.measure import NetworkMeasurement, NetworkRates, NetworkRun


def target_name() -> str:
    """The CPU, as LLVM names it."""
    from llvmlite.binding import get_host_cpu_name

    return f"cpu-{get_host_cpu_name()}"


def as_json(results: Results, target: str, data: str) -> dict[str, Any]:
    """All that was found."""
    settings = results.settings
    return {
        "schema_version": 1,
        "command": "bench spdnn",
        "target": target,
        "devices": list(settings.devices),
        "threads": settings.threads,
        "data": data,
        "storage": settings.storage,
        "seconds_limit": settings.seconds,
        "memory_bytes": settings.memory,
        "ceilings": {
            "copy_bytes_per_second": results.ceilings.copy,
            "multiply_adds_per_second": results.ceilings.multiply_adds,
            "gathers_per_second": results.ceilings.gathers,
        },
        "categories": _categories(results.all_match) if results.networks else "unknown",
        "networks": [_network(size, measured, results.ceilings) for size, measured in results.networks],
        "left_out": [
            {"network": str(each.size), "what": each.what, "reason": each.reason} for each in results.left_out
        ],
    }


def _network(size: Size, measured: NetworkMeasurement, ceilings: MachinePeaks) -> dict[str, Any]:
    return {
        "network": str(size),
        "neurons": size.neurons,
        "layers": size.layers,
        "images": measured.images,
        "pieces": measured.pieces,
        "rounds": measured.rounds,
        "held": measured.held,
        "survivors": len(measured.truth.survivors),
        "reference_seconds": measured.reference,
        "real_edges": measured.truth.real_edges,
        "nominal_edges": measured.nominal_edges,
        "live": measured.truth.live.tolist(),
        "runs": [_run(run, measured, ceilings) for run in measured.runs],
    }


def _run(run: NetworkRun, measured: NetworkMeasurement, ceilings: MachinePeaks) -> dict[str, Any]:
    rates = NetworkRates.of(run, measured, ceilings)
    return {
        "class": run.kind,
        "found": run.found,
        "findings": list(run.findings),
        "categories": _categories(run.matches),
        "preprocessing_seconds": run.preprocessing,
        "reading_seconds": run.reading,
        "transfer_seconds": run.transfer,
        "kernels_seconds": run.kernels,
        "seconds": run.seconds.middle,
        "seconds_spread": [run.seconds.least, run.seconds.most],
        "executed_edges": run.executed_edges,
        "moved_bytes": run.moved_bytes,
        "real_edges_per_second": rates.real,
        "executed_edges_per_second": rates.executed,
        "nominal_edges_per_second": rates.nominal,
        "of_copy": rates.of_copy,
        "of_multiply_adds": rates.of_multiply_adds,
        "of_gathers": rates.of_gathers,
        "live": list(run.live),
        "baselines": {name: _peer(peer) for name, peer in run.peers.items()},
    }


def _peer(peer: BaselineResult) -> dict[str, Any]:
    return {
        "categories": _categories(peer.matches),
        "seconds": peer.seconds.middle,
        "seconds_spread": [peer.seconds.least, peer.seconds.most],
        "ratio": peer.ratio.middle,
        "ratio_spread": [peer.ratio.least, peer.ratio.most],
    }


def _categories(match: bool) -> str:
    return "match" if match else "differ"
