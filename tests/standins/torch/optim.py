"""Gradient descent on one linear unit."""

from __future__ import annotations

from torch.nn import Module


class SGD:
    """Plain steps downhill."""

    def __init__(self, models: list[Module], lr: float) -> None:
        self.models, self.rate = models, lr

    def zero_grad(self) -> None:
        for model in self.models:
            model.gradient = (0.0, 0.0)

    def step(self) -> None:
        for model in self.models:
            model.weight -= self.rate * model.gradient[0]
            model.bias -= self.rate * model.gradient[1]

    def state_dict(self) -> dict[str, float]:
        return {"lr": self.rate}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.rate = state["lr"]


Optimizer = SGD
