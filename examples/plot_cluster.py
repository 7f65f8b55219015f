"""
A table on a cluster
====================

The table does not fit into memory, or lies on a cluster: each gradient is a pass over its
partitions, on Dask. The proxy is a sample of rows that fits here.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import proxyprox as pp
from proxyprox.dask import logistic_regression

ROWS, COLUMNS = 100_000, 40

# %%
# Here a small table in 20 blocks, on Dask's threads. With a ``distributed.Client`` the same lines
# run on the cluster behind it; a folder of Parquet is read by ``read_parquet``.
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, COLUMNS)) @ (
    rng.normal(size=(COLUMNS,) * 2) * np.geomspace(1, 0.03, COLUMNS)
)
y = rng.random(ROWS) < 1 / (1 + np.exp(-X @ rng.normal(size=COLUMNS) / 8))

target = logistic_regression(da.from_array(X, chunks=(ROWS // 20, COLUMNS)), y, l2=1e-6)
proxy = target.sample_rows(ROWS // 20, seed=0)  # one pass

losses = []
result = pp.minimize(
    pp.Problem(target, proxy), tol=1e-8, callback=lambda step: losses.append(step.value)
)
print(result)

# %%
# The rivals run on the same engine, and pass for pass: L-BFGS from zero, and L-BFGS that was given
# the sample by hand, as its start and its metric.
engine = pp.logistic_regression(X, y, l2=1e-6)  # the same loss in memory, for speed


def lbfgs(start, metric):
    """Minimise over z, where w = metric @ z, and return the loss of each pass."""
    seen = []

    def one_pass(z):
        w = metric @ z
        seen.append(engine.value(w))
        return seen[-1], metric.T @ engine.gradient(w)

    options = {"maxcor": 50, "maxiter": 100, "ftol": 0, "gtol": 1e-9}
    z = np.linalg.solve(metric, start)
    scipy_minimize(one_pass, z, jac=True, method="L-BFGS-B", options=options)
    return seen


zeros = np.zeros(COLUMNS)
start = scipy_minimize(proxy.value, zeros, jac=proxy.gradient, tol=1e-12).x
metric = np.linalg.inv(np.linalg.cholesky(proxy.hessian(start))).T
curves = {
    "proxyprox": (1, losses),  # the sample took one pass
    "L-BFGS": (0, lbfgs(zeros, np.eye(COLUMNS))),
    "L-BFGS with the sample, by hand": (1, lbfgs(start, metric)),
}

# %%
best = min(min(seen) for _, seen in curves.values())
for (name, (first, seen)), colour in zip(
    curves.items(), ["#0072B2", "#737373", "#D55E00"], strict=True
):
    gap = (np.minimum.accumulate(seen) - best) / best
    plt.semilogy(first + np.arange(1, len(gap) + 1), gap + 1e-13, color=colour, label=name)
plt.axhline(1e-6, color="#BBBBBB", lw=0.8)
plt.ylim(1e-10, 3)
plt.xlim(0, 60)
plt.xlabel("passes over the table, the sample's included")
plt.ylabel("(L − L*) / L*")
plt.legend()
plt.show()

# %%
# It is the sample that pays; ``minimize`` adds that nobody has to build the metric, and safety
# where the sample misleads. :doc:`/clusters` has 8 GB of it.
