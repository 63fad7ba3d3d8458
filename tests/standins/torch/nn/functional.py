"""The mean squared error of one linear unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass
class Predicted:
    """What a unit makes of its data."""

    model: Any
    data: Tensor


@dataclass
class Loss:
    """The error, which knows how it comes about."""

    predicted: Predicted
    wanted: Tensor

    def _errors(self) -> list[tuple[float, float]]:
        model = self.predicted.model
        return [
            (x, model.weight * x + model.bias - y)
            for x, y in zip(self.predicted.data.values, self.wanted.values, strict=True)
        ]

    def item(self) -> float:
        errors = self._errors()
        return sum(error**2 for _, error in errors) / len(errors)

    def backward(self) -> None:
        errors = self._errors()
        slope = sum(2 * x * error for x, error in errors) / len(errors)
        shift = sum(2 * error for _, error in errors) / len(errors)
        self.predicted.model.gradient = (slope, shift)


def mse_loss(predicted: Predicted, wanted: Tensor) -> Loss:
    return Loss(predicted, wanted)
