"""
Five hospitals: which of my proxies?
====================================

Four hospitals and an old study have sent tables; the rows of the fifth hospital answer one round
at a time. Two of the tables are useless, and nobody has said which.
"""

import matplotlib.pyplot as plt
import numpy as np

import proxyprox as pp

ROWS, COLUMNS = 20_000, 60

# %%
# The target: all rows of our hospital. Each hospital that helps has seen patients of another kind.
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, COLUMNS)) @ rng.normal(size=(COLUMNS, COLUMNS)) / 8
X *= np.geomspace(1, 0.05, COLUMNS)
y = rng.random(ROWS) < 1 / (1 + np.exp(-2 * X @ rng.normal(size=COLUMNS)))
target = pp.logistic_regression(X, y, l2=1e-5)

kind = np.argsort(X @ rng.normal(size=COLUMNS))
north, middle, south = (rng.choice(third, 400) for third in np.array_split(kind, 3))
fourth, fifth = (rng.choice(ROWS, 400) for _ in range(2))
proxies = {
    "north": pp.logistic_regression(X[north], y[north], l2=1e-5),
    "middle": pp.logistic_regression(X[middle], y[middle], l2=1e-5),
    "south": pp.logistic_regression(X[south], y[south], l2=1e-5),
    "shuffled": pp.logistic_regression(X[fourth][:, rng.permutation(COLUMNS)], y[fourth], l2=1e-5),
    "old units": pp.logistic_regression(30 * X[fifth], y[fifth], l2=1e-5),
}

# %%
# All five in a dict: the run fits their weights to the answers that it pays for.
curves = {}


def rounds(name, proxy):
    curves[name] = []
    problem = pp.Problem(target, proxy) if proxy is not None else pp.Problem(target)
    return pp.minimize(problem, tol=1e-8, callback=lambda step: curves[name].append(step.value))


result = rounds("all five, weights fitted", proxies)
print(result.message)
for name, counts in result.ledger.proxies.items():
    print(f"{name:10s} {counts['proxy_gradients']:3d} gradients")

# %%
# The rivals: the mean of all, the best table alone, and no table. Losses add up in formulas.
equal = sum((0.2 * proxy for proxy in list(proxies.values())[1:]), 0.2 * proxies["north"])
rounds("their mean", equal)
rounds("north alone", proxies["north"])
rounds("no proxy", None)

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
least = min(map(min, curves.values()))
for (name, values), colour in zip(
    curves.items(), ("#0072B2", "#D55E00", "#009E73", "#737373"), strict=True
):
    gap = np.minimum.accumulate(values) - least
    axes.semilogy(np.arange(1, len(gap) + 1), np.maximum(gap, 1e-10), color=colour, label=name)
axes.set(xlabel="rounds", ylabel="L − L*", ylim=(1e-9, None), xlim=(0, 80))
axes.legend(frameon=False)
plt.show()
