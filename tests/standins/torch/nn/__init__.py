"""One linear unit, and the gradient that it needs."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

__all__ = ["Linear", "Module", "functional"]


class Module:
    """What can be trained, saved and loaded."""

    def __init__(self) -> None:
        self.weight, self.bias = 0.5, 0.0
        self.gradient = (0.0, 0.0)

    def to(self, device: object) -> Module:
        assert device
        return self

    def parameters(self) -> list[Module]:
        return [self]

    def state_dict(self) -> dict[str, float]:
        return {"weight": self.weight, "bias": self.bias}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.weight, self.bias = state["weight"], state["bias"]


class Linear(Module):
    """y = weight x + bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        assert inputs == outputs == 1
        super().__init__()

    def __call__(self, data: Tensor) -> functional.Predicted:
        return functional.Predicted(self, data)
