"""Commands run in this process."""

import pytest

from vkernels.commands import main


@pytest.fixture
def run_vk(capsys):
    """Runs `vk` with some arguments; gives exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return (exit.value.code or 0, *capsys.readouterr())

    return run
