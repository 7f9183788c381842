"""`vk farm simulate` compares policies on a trace."""

from __future__ import annotations

import json

import pytest

from vkernels.commands import main

TRACE = "arrival,seconds,cores,user,family,shape,gain\n0,10,1,a,f,s,1\n1,90,1,a,g,s,1\n2,10,1,b,f,s,1\n"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["farm", "simulate", *arguments])
    return left.value.code or 0


def test_policies_are_compared(tmp_path, capsys):
    trace, file = tmp_path / "trace.csv", tmp_path / "found.json"
    trace.write_text(TRACE)
    assert run(str(trace), "--policy", "fifo,sjf", "--json", str(file)) == 0
    written = json.loads(file.read_text())
    assert [each["policy"] for each in written["policies"]] == ["fifo", "sjf"]
    assert written["policies"][0]["mean"] == pytest.approx((10 + 99 + 108) / 3)
    assert written["policies"][1]["mean"] == pytest.approx((10 + 109 + 18) / 3)
    assert capsys.readouterr().out.split()[:7] == ["policy", "mean", "s", "p99", "s", "longest", "s"]


@pytest.mark.parametrize("options", [["--policy", "best"], ["--turn", "0"], ["--bound", "-1"]], ids=" ".join)
def test_mistakes(options, tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    assert run(str(trace), *options) == 2
    assert options[0] in capsys.readouterr().err


def test_a_line_that_is_wrong_is_named(tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE.replace("90", "-90"))
    assert run(str(trace)) == 2
    assert "trace.csv:3: seconds" in capsys.readouterr().err
