"""Run random kernels: `python -m tests.generated.random_kernels --count 10000 --seed 7`: stops at the first difference.

The seed being run is always shown, so that a crash of native code can be repeated."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from .compare import PLANS, Counts, check, check_ttir


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated.random_kernels", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="kernels to run")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="the first's seed")
    parser.add_argument("--plans", type=int, default=PLANS, help="plans for each kernel")
    parser.add_argument("--ttir", action="store_true", help="lower to TTIR and run that, in place of the CPU's ways")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a kernel that fails")
    options = parser.parse_args()
    print(f"seed = {options.seed}", flush=True)
    counts, failed, began = Counts(), 0, time.monotonic()
    for number in range(options.count):
        print(f"seed {options.seed + number}", end="\r", file=sys.stderr, flush=True)
        try:
            if options.ttir:
                check_ttir(options.seed + number, counts)
            else:
                check(options.seed + number, counts, plans=options.plans)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"seed {options.seed + number} failed", flush=True)
            if not options.keep_going:
                return 1
        if (number + 1) % 100 == 0:
            seconds = time.monotonic() - began
            plans = counts.mapped + counts.lowered
            print(f"{number + 1} kernels, {plans} plans, {failed} failed, {seconds:.0f} s", flush=True)
    for message, times in counts.refused.most_common():
        print(f"refused {times}: {message}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
