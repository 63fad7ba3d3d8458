"""A model whose ranks would share their gradients; here each keeps its own."""

from __future__ import annotations

from torch.nn import Module


def DistributedDataParallel(model: Module) -> Module:  # noqa: N802 - PyTorch's name
    return model
