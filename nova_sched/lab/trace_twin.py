"""A synthetic twin of a public cloud's trace: the same kind of sizes, lives and bursts, from a seed, with no data in it.

What it imitates (the Azure packing trace, of which these are the published properties): 0.68 arrivals a second on
average, 8 at the 99th percentile, hundreds at most; lives of half an hour at the median, 13.3 hours at the 90th and 226
hours at the 99th percentile; about a hundred sizes of which few are common; tenants from one guest to thousands. About
one guest in seven runs already when the trace begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nova_sched.lab.trace import Arrival, Trace, of

Numbers = NDArray[np.float64]

#: Life: quantile and seconds; between them the logarithm is straight.
_LIVES = ((0.0, 30.0), (0.5, 33 * 60.0), (0.9, 13.3 * 3600.0), (0.99, 226 * 3600.0), (1.0, 2000 * 3600.0))
_ARRIVALS_PER_SECOND = 0.68
_RUNNING_SHARE = 1 / 7
_STAYING_SHARE = 0.02
#: vCPUs and their weights; GB of RAM per vCPU and theirs; every size is a pair of the two.
_VCPUS = (
    (1, 0.38), (2, 0.25), (4, 0.13), (8, 0.11), (16, 0.06), (3, 0.02), (6, 0.02), (12, 0.01), (24, 0.01), (32, 0.01),
)  # fmt: skip
_GB_PER_VCPU = (
    (1.75, 0.55), (4.0, 0.14), (1.0, 0.09), (2.0, 0.08), (8.0, 0.04), (3.5, 0.03), (0.5, 0.03), (7.0, 0.02), (1.5, 0.01),
    (16.0, 0.01),
)  # fmt: skip
#: Bursts: an order of more than one guest, of one size and one tenant; sizes fall off as a power.
_BURST_POWER = 2.1
_BURST_MAX = 600
_TENANTS = 20_000


def twin(count: int, seed: int = 0, arrivals_per_second: float = _ARRIVALS_PER_SECOND) -> Trace:
    """``count`` guests; the same for the same arguments. ``arrivals_per_second``: of new guests, on average."""
    rng = np.random.default_rng(seed)
    running = int(count * _RUNNING_SHARE)
    burst = _burst_of_each(rng, count - running)
    # Running guests are each a burst of their own; the others share size, tenant and moment with their burst.
    order = np.concatenate((np.arange(running), running + burst))
    bursts = int(order[-1]) + 1 if len(order) else 0
    vcpus = _drawn(rng, _VCPUS, bursts)
    per_vcpu = _drawn(rng, _GB_PER_VCPU, bursts)
    # Every order of magnitude of rank has the same share of the bursts: the first tenant has many, most have one.
    tenants = np.floor(np.exp(rng.random(bursts) * np.log(_TENANTS))).astype(np.int64)
    spacing = rng.exponential(1.0, max(0, bursts - running))
    moments = np.cumsum(spacing)
    if len(moments):
        moments *= (count - running) / arrivals_per_second / moments[-1]
    starts = np.concatenate((np.full(running, -1.0), moments))
    lives = np.exp(np.interp(rng.random(count), *_life_points()))
    # A guest that is met running is more likely a long one: draw it from the upper tenth.
    lives[:running] = np.exp(np.interp(0.9 + 0.1 * rng.random(running), *_life_points()))
    stays = rng.random(count) < _STAYING_SHARE
    return of(
        f"twin-{count}-{seed}",
        (
            Arrival(
                guest=f"guest-{number:07d}",
                tenant=f"tenant-{tenants[of_burst]}",
                vcpus=int(vcpus[of_burst]),
                memory_mb=int(vcpus[of_burst] * per_vcpu[of_burst] * 1024),
                disk_gb=0,
                start_seconds=float(starts[of_burst]),
                end_seconds=float("inf")
                if stays[number]
                else max(0.0, float(starts[of_burst])) + float(lives[number]),
            )
            for number, of_burst in enumerate(order.tolist())
        ),
    )


def _burst_of_each(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Number of the burst that each of ``count`` guests belongs to, rising from 0."""
    sizes = np.minimum(rng.zipf(_BURST_POWER, count), _BURST_MAX)
    return np.repeat(np.arange(count), sizes)[:count]


def _drawn(rng: np.random.Generator, choices: tuple[tuple[float, float], ...], count: int) -> Numbers:
    values, weights = np.array(choices).T
    found: Numbers = rng.choice(values, size=count, p=weights / weights.sum())
    return found


def _life_points() -> tuple[Numbers, Numbers]:
    quantiles, seconds = np.array(_LIVES).T
    return quantiles, np.log(seconds)
