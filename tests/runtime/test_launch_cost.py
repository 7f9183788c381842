"""What handing a launch to threads costs is measured where there are threads."""

from __future__ import annotations

from vkernels.runtime import launch_cost
from vkernels.runtime.launch_cost import measure_launch


def test_a_launch_costs_something():
    found = measure_launch(2)
    assert found is None or all(0 <= seconds < 10 for seconds in found)


def test_one_thread_hands_nothing_over(monkeypatch):
    assert measure_launch(1) is None
    monkeypatch.setattr(launch_cost, "is_native", lambda: False)
    assert measure_launch(2) is None
