"""
Few exact gradients
===================

Each gradient is a round trip: to a cluster, a simulator, another site. Give ``minimize`` the
expensive loss and a sample of its rows, and count rounds.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import proxyprox as pp

ROWS = 20_000

# %%
# A table with correlated columns of very different sizes; 5 % of its rows are at hand.
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 60)) @ (rng.normal(size=(60, 60)) * np.geomspace(1, 0.02, 60)) / 5
y = rng.random(ROWS) < 1 / (1 + np.exp(-X @ rng.normal(size=60)))

target = pp.logistic_regression(X, y, l2=1e-5)  # a round: value and gradient over all rows
proxy = target.subsample(ROWS // 20, rng=1)  # free

# %%
# Ours: no step size, no start, no number of rounds to choose.
ours = []
result = pp.minimize(
    pp.Problem(target, proxy), tol=1e-8, callback=lambda step: ours.append(step.value)
)
print(result)


# %%
# The rivals are SciPy's L-BFGS from zero, from the sample's minimum, and from there in the metric
# of the sample's Hessian. The last one is as strong as a hand-made method gets without Hessians
# of the target. All remember 50 steps.
def lbfgs(start, metric):
    """Minimise over z, where w = metric @ z, and return the loss of each round."""
    losses = []

    def round_trip(z):
        w = metric @ z
        losses.append(target.value(w))
        return losses[-1], metric.T @ target.gradient(w)

    options = {"maxcor": 50, "maxiter": 500, "ftol": 0, "gtol": 1e-9}
    z = np.linalg.solve(metric, start)
    scipy_minimize(round_trip, z, jac=True, method="L-BFGS-B", options=options)
    return losses


def newton(w):
    """Take Newton's steps: each round also returns a Hessian of 60 × 60 numbers."""
    losses = []
    for _ in range(15):
        losses.append(target.value(w))
        w = w - np.linalg.solve(target.hessian(w), target.gradient(w))
    return losses


start = scipy_minimize(proxy.value, np.zeros(60), jac=proxy.gradient, tol=1e-12).x
metric = np.linalg.inv(np.linalg.cholesky(proxy.hessian(start))).T
curves = {
    "proxyprox (the default)": ours,
    "L-BFGS from 0": lbfgs(np.zeros(60), np.eye(60)),
    "L-BFGS from the sample's minimum": lbfgs(start, np.eye(60)),
    "L-BFGS in the sample's metric, too": lbfgs(start, metric),
    "Newton from there, with Hessians": newton(start),
}

# %%
# What counts is how many rounds a wanted accuracy takes.
best = min(min(losses) for losses in curves.values())
colours = ["#0072B2", "#737373", "#009E73", "#D55E00", "#CC79A7"]
for (name, losses), colour in zip(curves.items(), colours, strict=True):
    gap = np.minimum.accumulate(losses) - best
    plt.semilogy(np.arange(1, len(gap) + 1), gap + 1e-12, color=colour, label=name)
plt.axhline(1e-6, color="#BBBBBB", lw=0.8)
plt.ylim(1e-10, 1)
plt.xlim(0, 100)
plt.xlabel("rounds (values and gradients of the target)")
plt.ylabel("loss above the least one")
plt.legend()
plt.show()

# %%
# The sample gives the start and the metric; each round then corrects one direction of it. Whoever
# builds that metric for L-BFGS by hand does nearly as well. Newton's method needs the fewest rounds
# where the other side can send a Hessian each time. :doc:`/few_exact_gradients` has the
# measurements on real tables.
