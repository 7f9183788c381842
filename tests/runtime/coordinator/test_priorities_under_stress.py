"""Priorities change at random while functions raise, processes fork, are killed and end: nobody waits forever."""

import os

import pytest

from tests.library.reference import fresh_seed
from tests.runtime.coordinator.test_priority import COMMON, run
from vkernels.runtime.pool import is_native

SCRIPT = """
import random, signal, sys, time
CHANGES, OF_CHILD, SEED = {changes}, {of_child}, {seed}
small = x[:3, :5].copy()
exact = np.exp(small) / np.exp(small).sum(1, keepdims=True)
check()

def changes(number, name):
    chance = random.Random(f"{{SEED}} {{name}}")
    out = np.empty_like(small)
    for at in range(number):
        try:
            with vk.priority(chance.choice(["low", "normal", "high"])):
                if chance.random() < 0.002:
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
born = 0
while born < 4 or any(thread.is_alive() for thread in threads):
    born += 1
    is_killed, pipe = born % 2 == 0, os.pipe()
    child = os.fork()
    if child == 0:
        os.write(pipe[1], b"!")
        changes(10 ** 9 if is_killed else OF_CHILD, f"child {{born}}")
        os._exit(0)
    os.read(pipe[0], 1)
    if is_killed:  # in the middle of a call of some priority, or of a pause for one
        time.sleep(random.Random(f"{{SEED}} {{born}}").uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 120
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < until, "the child waits forever"
        time.sleep(0.01)
    assert found[1] == (signal.SIGKILL if is_killed else 0), found
    for end in pipe:
        os.close(end)
    time.sleep(0.1)
assert failed == [], failed
for name in range(2):  # which the interpreter does not wait for
    threading.Thread(target=caller, args=(10 ** 9, f"late {{name}}"), daemon=True).start()
time.sleep(0.05)
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "fork") or not is_native(), reason="no fork or no native pool here")
@pytest.mark.parametrize("changes", [400, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_priorities_change_under_exceptions_forks_kills_and_exit(changes):
    script = SCRIPT.format(changes=changes, of_child=min(50, changes // 40), seed=fresh_seed())
    found = run(COMMON + script, seconds=120 + changes / 200)
    assert (found.stdout, found.returncode) == ("well\n", 0), found.stderr
