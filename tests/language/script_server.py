"""Runs scripts in forks of a process that has imported what they import: `python -m tests.language.script_server`.

Each line of its standard input is a folder with a `script.py`, which runs there; what it prints goes to the files `out`
and `err`. The answer is a line with its exit code. As in a process of its own, the script is the module `__main__`, and
what ends it goes to `sys.excepthook`.
"""

from __future__ import annotations

import os
import sys
import traceback
import types

import numpy as np  # noqa: F401
import torch  # noqa: F401

import vkernels.ir.interpret.interpret
import vkernels.language.frontend.build
import vkernels.runtime.dispatch  # noqa: F401


def run_script(folder: str) -> int:
    """Run the script of a folder, in a fork; its exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    code = 1
    try:
        os.chdir(folder)
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = run_main(os.path.join(folder, "script.py"))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_main(path: str) -> int:
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    with open(path) as file:
        text = file.read()
    try:
        exec(compile(text, path, "exec"), main.__dict__)
    except BaseException as error:
        behind = error.__traceback__
        while behind is not None and behind.tb_frame.f_code.co_filename == __file__:
            behind = behind.tb_next
        sys.excepthook(type(error), error.with_traceback(behind), behind)
        return 1
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_script(line.strip()), flush=True)
