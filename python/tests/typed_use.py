"""A program that mypy checks: the types that a user sees."""

from typing import Any, assert_type

import numpy as np

import sluice


def use(runtime: sluice.Runtime) -> None:
    tensor = runtime.tensor((4, 4), "float32", name="weights")
    assert_type(tensor.shape, tuple[int, ...])
    assert_type(tensor[0:2], sluice.Part)
    with runtime.lease(tensor, mode="rw", timeout=1.5) as view:
        assert_type(view, sluice.View)
        assert_type(view.numpy(), np.ndarray[Any, Any])
        view += 1
    with runtime.lease(tensor[0:1], (tensor[1:2], "w")) as views:
        assert_type(views, tuple[sluice.View, ...])
    with runtime.iteration("train"), runtime.op("forward") as op:
        with op.lease(tensor) as view:
            assert_type(view, sluice.View)
        with op.lease(tensor[0:1], tensor[1:2]) as views:
            assert_type(views, tuple[sluice.View, ...])
    weight = runtime.open_weights("model.safetensors")["weights"]
    assert_type(weight, sluice.Weight)
    if weight.tensor is not None:
        with runtime.lease(weight.tensor) as view:
            assert_type(view, sluice.View)
    assert_type(runtime.stats(), dict[str, Any])
