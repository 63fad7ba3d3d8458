"""A stand-in for the part of PyTorch that jobs/ uses, on numbers instead of tensors, for machines without it.

Ranks meet through files in $TORCH_STAND_IN. What it cannot do as PyTorch does, it refuses.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

float32 = "float32"


class Tensor:
    """A row of numbers with what is done to them here."""

    def __init__(self, values: list[float], device: object = "cpu") -> None:
        self.values = list(values)
        self.device = device

    def __mul__(self, other: float) -> Tensor:
        return Tensor([value * other for value in self.values])

    __rmul__ = __mul__

    def __add__(self, other: float) -> Tensor:
        return Tensor([value + other for value in self.values])

    def __eq__(self, other: object) -> Any:
        return Tensor([float(value == other) for value in self.values])

    __hash__ = None  # type: ignore[assignment]  # as a tensor's elements are compared

    def all(self) -> bool:
        return all(self.values)

    def fill_(self, value: float) -> Tensor:
        self.values = [value] * len(self.values)
        return self

    def item(self) -> float:
        (value,) = self.values
        return value


class device:  # noqa: N801 - PyTorch's name
    def __init__(self, kind: str, index: int = 0) -> None:
        assert kind == "cpu"
        self.type, self.index = kind, index


class cuda:  # noqa: N801 - PyTorch's name
    @staticmethod
    def is_available() -> bool:
        return False


def manual_seed(seed: int) -> None:
    random.seed(seed)


def ones(count: int, dtype: object = None, device: object = None) -> Tensor:
    return Tensor([1.0] * min(count, 100))


def randn(rows: int, columns: int, device: object = None) -> Tensor:
    return Tensor([random.gauss(0, 1) for _ in range(rows * columns)])


def tensor(values: list[float], device: object = None) -> Tensor:
    return Tensor(values)


def save(state: object, path: str | Path) -> None:
    Path(path).write_bytes(pickle.dumps(state))


def load(path: str | Path, map_location: object = None) -> Any:
    return pickle.loads(Path(path).read_bytes())  # noqa: S301 - what `save` wrote


from torch import nn, optim  # noqa: E402 - they need what stands above

__all__ = ["Tensor", "cuda", "device", "load", "manual_seed", "nn", "ones", "optim", "randn", "save", "tensor"]
