"""The library's functions as torch's own operations: with gradients, under `torch.compile` and in CUDA graphs.

`import vkernels.torch` registers them as `torch.ops.vkernels`; `import vkernels` alone does not import torch.
"""

from vkernels.compiler.default_session import patient
from vkernels.ir.optional_packages import not_installed as _not_installed

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise _not_installed(error) from None

from .attention import *
from .convolution import *
from .custom_ops import torch_op
from .dense import *
from .elements import *
from .experts import *
from .finite_elements import *
from .losses import *
from .norms import *
from .reductions import *
from .replacing import ReplaceReport, replace, restore
from .scans import *
from .sparse import *

__all__ = ["ReplaceReport", "patient", "replace", "restore", "torch_op"]
__all__ += sorted(
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "").startswith(__name__) and name not in __all__
)
