"""The optimizers, by the names that they have in torch.optim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .. import errors
from ._arguments import Options, number_of
from ._state_dicts import Rates
from ._optimizer import PagedOptimizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Options by which torch.optim's optimizers choose an implementation; they change no result.
_CHOICES: Mapping[str, Any] = {"foreach": None, "fused": None}


class Adam(PagedOptimizer):
    """torch.optim.Adam whose moments are paged: weight decay is part of the gradient.

    runtime
        The Runtime that pages the states; it is closed after the optimizer.
    states
        Type of the states: "fp32", "bf16" (rounded stochastically) or "8bit".
    master
        For bfloat16 and float16 parameters: a paged fp32 master each. False: bfloat16 parameters
        are rounded stochastically.
    clip_norm
        Largest global norm of the gradients of a step; larger ones are scaled down, in the same
        pass. None: no clipping.
    seed
        Seed of stochastic rounding.
    threads
        Threads that compute, of all ranks of the host together; None: as many as the processes may
        use. No bit depends on it.
    lowest
        The lowest tier that the states may reach: "nvme" or "dram".
    step_in_backward
        Updates begin in backward, each as soon as its gradient is there, which is used up then;
        ``step`` waits for them. What needs all gradients after backward raises FailedPrecondition:
        clip_grad_norm_, Trainer's max_grad_norm, GradScaler, accumulation, DistributedDataParallel.
    overlap
        ``step`` returns at once, and keeps the gradients. A module waits for the updates of its
        parameters before its forward and its state_dict; ``wait`` waits for all.
    closures
        ``step`` accepts a closure, as Lightning gives it at every step. False: it is refused, as a
        step that fails is called again with the gradients that it had, and a closure makes others.

    Raises InvalidArgument (names the parameter or the option) and TierFull.
    """

    _kind = "adam"
    _state_names = ("exp_avg", "exp_avg_sq")
    _decoupled = False
    _fixed = {"amsgrad": False, "maximize": False, "capturable": False, "differentiable": False}

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: Optional[bool] = False,
                 **options: Unpack[Options]) -> None:
        rates = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                 "decoupled_weight_decay": self._decoupled, **_CHOICES}
        super().__init__(params, rates, {"amsgrad": amsgrad, **options})

    def _check_options(self, group: Mapping[str, Any], where: str) -> None:
        super()._check_options(group, where)
        if number_of(group.get("decoupled_weight_decay", self._decoupled)) != self._decoupled:
            raise errors.InvalidArgument(
                f"{type(self).__name__}: a group with decoupled_weight_decay="
                f"{not self._decoupled} is that of {'Adam' if self._decoupled else 'AdamW'}"
            )

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        beta1, beta2 = group["betas"]
        return (float(group["lr"]), float(beta1), float(beta2), float(group["eps"]),
                float(group["weight_decay"]))


class AdamW(Adam):
    """torch.optim.AdamW whose moments are paged: weight decay acts on the parameter.

    Other parameters are those of Adam.
    """

    _kind = "adamw"
    _decoupled = True

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: Optional[bool] = False,
                 **options: Unpack[Options]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **options)


class SGD(PagedOptimizer):
    """torch.optim.SGD whose momentum is paged. Other parameters are those of Adam."""

    _state_names = ("momentum_buffer",)
    _counted = False
    _fixed = {"dampening": 0, "maximize": False, "differentiable": False}

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0,
                 weight_decay: float = 0.0, nesterov: Optional[bool] = False,
                 **options: Unpack[Options]) -> None:
        if nesterov is not None and number_of(nesterov) not in (0, 1):
            raise errors.InvalidArgument(f"SGD: nesterov is {nesterov!r}; it must be True or False")
        if nesterov and not (number_of(momentum) or 0.0) > 0:
            raise errors.InvalidArgument("SGD: nesterov=True needs a momentum above 0")
        self._kind = "nesterov" if nesterov else "sgd"
        rates = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                 "nesterov": bool(nesterov), **_CHOICES}
        super().__init__(params, rates, {"dampening": dampening, **options})

    def _check_options(self, group: Mapping[str, Any], where: str) -> None:
        super()._check_options(group, where)
        nesterov = self._kind == "nesterov"
        if number_of(group.get("nesterov", nesterov)) != nesterov:
            raise errors.InvalidArgument("SGD: nesterov is the same for all groups")

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        return (float(group["lr"]), float(group["momentum"]), 0.0, 1e-8, float(group["weight_decay"]))

    def _keeps_states(self, rates: Rates) -> bool:
        _, momentum, *_ = rates
        return momentum > 0


class Lion(PagedOptimizer):
    """Lion (sign of an interpolated momentum), paged. Other parameters are those of Adam."""

    _kind = "lion"
    _state_names = ("exp_avg",)
    _counted = False

    def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, **options: Unpack[Options]) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay}, options)

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        beta1, beta2 = group["betas"]
        return (float(group["lr"]), float(beta1), float(beta2), 1e-8, float(group["weight_decay"]))


class Adagrad(PagedOptimizer):
    """torch.optim.Adagrad whose sums are paged. Other parameters are those of Adam."""

    _kind = "adagrad"
    _state_names = ("sum",)
    _begins_with_states = True
    _fixed = {"initial_accumulator_value": 0, "maximize": False, "differentiable": False}

    def __init__(self, params: Any, lr: float = 1e-2, lr_decay: float = 0.0,
                 weight_decay: float = 0.0, initial_accumulator_value: float = 0,
                 eps: float = 1e-10, **options: Unpack[Options]) -> None:
        rates = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, **_CHOICES}
        super().__init__(params, rates,
                         {"initial_accumulator_value": initial_accumulator_value, **options})

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        rate = float(group["lr"]) / (1 + steps * float(group["lr_decay"]))
        return (rate, 0.0, 0.0, float(group["eps"]), float(group["weight_decay"]))
