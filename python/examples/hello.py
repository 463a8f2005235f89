"""A tensor of 16 MiB under 4 MiB of memory: most of it is on disk, and all of it can be changed."""

import numpy as np
import sluice

with sluice.Runtime(dram="4MiB", nvme_bytes="64MiB", page_bytes="64KiB") as runtime:
    weights = runtime.tensor((64, 65536), np.float32, name="weights")
    values = np.random.default_rng(1).standard_normal(weights.shape, np.float32)
    weights.write(values)
    for row in range(64):
        with runtime.lease(weights[row : row + 1], mode="rw") as view:
            view.numpy()[:] *= 2
    wrong = int((weights.read(np.empty_like(values)) != values * 2).sum())
    read = runtime.stats()["links"]["dram-nvme"]["in"]["bytes"]
print(f"{wrong} of {values.size} elements are wrong; {read >> 20} MiB came back from disk")
