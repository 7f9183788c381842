"""Traces are read strictly; what is wrong with a file is said with its line."""

from __future__ import annotations

import gzip
import re

import pytest

from vkernels.farm.jobs import Job
from vkernels.farm.traces import GENTD26, JOBS, NODES, read_jobs, read_nodes
from vkernels.ir.errors import FileError

REQUEST = "2024-11-15 16:57:50,TXT_2_IMG,{},{},G1,63.0,26.0,1.0,30.0,M1,0"


def written(folder, header, *rows):
    file = folder / "trace.csv"
    file.write_text("\n".join([",".join(header), *rows, ""]))
    return file


def test_jobs_are_read_in_order_of_arrival(tmp_path):
    file = written(tmp_path, JOBS, "5,2.5,2,ann,softmax,small,1", '0,1,1,"b, c",matmul,large,2')
    late, early = Job(5.0, 2.5, "ann", ("softmax", "small"), 2), Job(0.0, 1.0, "b, c", ("matmul", "large"), 1, 2.0)
    assert read_jobs(file) == (early, late)
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_jobs(packed) == (early, late)


def test_requests_that_did_not_succeed_are_left_out(tmp_path):
    file = written(tmp_path, GENTD26, REQUEST.format("SUCCEED", "32.0"), REQUEST.format("FAILED", ""))
    (job,) = read_jobs(file)
    assert (job.seconds, job.user, job.kind) == (32.0, "G1", ("TXT_2_IMG", "1.0", "30.0", "M1", "0"))


def test_nodes_are_read(tmp_path):
    first, second = read_nodes(written(tmp_path, NODES, "2017-10-03 00:00:00,3,4", "2017-10-03 00:01:00,4,4"))
    assert (second.time - first.time, first.active, second.total) == (60.0, 3, 4)


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (JOBS, "0,1,1,a,f,s", ":2: expected 7 fields, got 6"),
        (JOBS, "nan,1,1,a,f,s,1", ":2: arrival: expected a number, got 'nan'"),
        (JOBS, "-1,1,1,a,f,s,1", ":2: arrival:"),
        (JOBS, "0,0,1,a,f,s,1", ":2: seconds: expected a positive number"),
        (JOBS, "0,inf,1,a,f,s,1", ":2: seconds:"),
        (JOBS, "0,1,0,a,f,s,1", ":2: cores: expected a whole number from 1 on"),
        (JOBS, "0,1,²,a,f,s,1", ":2: cores:"),
        (JOBS, "0,1,1,\u202ea,f,s,1", ":2: user: expected a printable text"),
        (JOBS, '0,1,1,"a"b,f,s,1', ":2: not CSV"),
        (JOBS[:-1], "0,1,1,a,f,s", ":1: expected the columns"),
        (GENTD26, REQUEST.format("DONE", "1"), ":2: predict_status: expected SUCCEED"),
        (GENTD26, REQUEST.format("FAILED", "1"), ": the trace has no job"),
        (GENTD26, REQUEST.format("SUCCEED", "1").replace("11-15", "11-31"), ":2: gmt_create: expected a time"),
    ],
)
def test_mistakes_in_jobs(header, row, message, tmp_path):
    with pytest.raises(FileError, match=re.escape(message)):
        read_jobs(written(tmp_path, header, row))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2017-10-03 00:01:00,5,4", ":3: active: 5 nodes of 4"),
        ("2017-10-03 00:00:00,3,4", ":3: time: times must rise"),
        ("2017-10-03 00:01:00,3.0,4", ":3: active: expected a whole number"),
    ],
)
def test_mistakes_in_nodes(row, message, tmp_path):
    with pytest.raises(FileError, match=re.escape(message)):
        read_nodes(written(tmp_path, NODES, "2017-10-03 00:00:00,3,4", row))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        read_jobs(tmp_path / "none.csv")
