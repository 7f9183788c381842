"""All comparisons of the coordinator's benchmark in turn, each in a process of its own, with its duration."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

BENCHMARK = Path(__file__).with_name("coordinator.py")
PAIRS = ("--seconds", "0.2", "--rounds", "3")
PARTS = (
    ("pairs on two cores", ("--cores", "2", *PAIRS)),
    ("pairs on one core", ("--cores", "1", *PAIRS)),
    ("two processes on two cores", ("--cores", "2", "--apart", *PAIRS)),
    ("two processes on one core", ("--cores", "1", "--apart", *PAIRS)),
    ("at once on two cores", ("--throughput", "--seconds", "0.25", "--rounds", "2")),
    ("contracts on two cores", ("--contracts", "--cores", "2", "--seconds", "0.25")),
    ("contracts on one core", ("--contracts", "--cores", "1", "--seconds", "0.25")),
    ("simulated on two cores", ("--simulated", "--cores", "2", "--seconds", "0.6", "--rounds", "2")),
    ("simulated on one core", ("--simulated", "--cores", "1", "--seconds", "0.6", "--rounds", "2")),
)
"""What is measured, and how long."""


def run_all(only: str) -> int:
    """Run all parts for pairs with this in their names; returns how many failed."""
    begin, failed = time.perf_counter(), 0
    for name, options in PARTS:
        start = time.perf_counter()
        print(f"\n## {name[0].upper()}{name[1:]}\n`--{' '.join(options).removeprefix('--')}`\n", flush=True)
        chosen = ("--only", only) if only else ()
        failed += subprocess.run([sys.executable, str(BENCHMARK), *options, *chosen], check=False).returncode != 0
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
    print(f"\nall: {time.perf_counter() - begin:.0f} s, {failed} of {len(PARTS)} parts failed")
    return failed
