"""Priorities change at random while functions raise, processes fork and the interpreter ends: no one waits forever."""

import os

import pytest

from tests.library.reference import fresh_seed
from tests.runtime.coordinator.test_priority import COMMON, run
from vkernels.runtime.pool import is_native

SCRIPT = """
import random, sys, time
CHANGES, SEED = {changes}, {seed}
small = x[:3, :5].copy()
exact = np.exp(small) / np.exp(small).sum(1, keepdims=True)
check()

def changes(number, name):
    chance = random.Random(f"{{SEED}} {{name}}")
    out = np.empty_like(small)
    for at in range(number):
        try:
            with vk.priority(chance.choice(["low", "normal", "high"])):
                if chance.random() < 0.01:
                    check()
                elif chance.random() < 0.01:
                    softmax_rows(small, small[:2])  # raises
                else:
                    softmax_rows(small, out)
                if chance.random() < 0.01:
                    raise KeyError(at)
        except (KeyError, vk.Error):
            pass
        assert vk.get_priority() == "normal"
    np.testing.assert_allclose(out, exact, rtol=1e-4)

failed, running = [], []
def caller(number, name):
    try:
        changes(number, name)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=caller, args=(CHANGES // 4, name)) for name in range(4)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    child = os.fork()
    if child == 0:
        changes(50, "child")
        os._exit(0)
    until = time.monotonic() + 60
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < until, "the child waits forever"
        time.sleep(0.01)
    assert found[1] == 0, found
    time.sleep(0.2)
assert failed == [], failed
for name in range(2):  # which the interpreter does not wait for
    threading.Thread(target=caller, args=(10 ** 9, f"late {{name}}"), daemon=True).start()
time.sleep(0.05)
print("well")
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork") or not is_native(), reason="no fork or no native pool here")
@pytest.mark.parametrize("changes", [1_000_000])
def test_priorities_change_under_exceptions_forks_and_exit(changes):
    found = run(COMMON + SCRIPT.format(changes=changes, seed=fresh_seed()), seconds=60 + changes / 500)
    assert (found.stdout, found.returncode) == ("well\n", 0), found.stderr
