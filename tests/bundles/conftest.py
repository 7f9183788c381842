"""One bundle that all tests share: building it is most of their time."""

from pathlib import Path

import pytest

from vkernels.bundles.build import bundled
from vkernels.bundles.build_request import BuildOptions, BuildRequest
from vkernels.bundles.bundle import write_bundle
from vkernels.bundles.signing import read_key
from vkernels.compiler.default_session import default_session

from . import kernels

SHAPES = ({"M": 6, "N": 37},)
NEEDS = "cpu", "cpu:x86-64-v2"


@pytest.fixture(scope="session")
def built():
    """The manifest and files of a bundle of two kernels."""
    types = {"x": "float32", "out": "float32"}
    requests = [
        BuildRequest(kernels.scale, kernels.scale.signature(factor=float, **types), SHAPES, reference="kernels:scale"),
        BuildRequest(kernels.softmax, kernels.softmax.signature(**types), SHAPES, reference="kernels:softmax"),
    ]
    return bundled(requests, BuildOptions(NEEDS, in_place=True, command="a test"), default_session())


@pytest.fixture(scope="session")
def secret(tmp_path_factory) -> Path:
    """The file of a secret."""
    path = tmp_path_factory.mktemp("keys") / "secret"
    path.write_bytes(bytes(range(40)))
    return path


@pytest.fixture(scope="session")
def net(built, secret, tmp_path_factory) -> Path:
    """The bundle's file, signed with the secret."""
    path = tmp_path_factory.mktemp("bundles") / "net.vkb"
    write_bundle(path, *built, [read_key(secret)])
    return path
