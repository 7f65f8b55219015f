"""
One label at a time
===================

Labels arrive one by one, each costs money, and none may be kept: patients, users, experiments.
``Run`` asks for a label, takes a step, and forgets it. The proxy is the inputs, which have no
labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import proxyprox as pp

SEEDS = 5
LABELS = 400

# %%
# A loop of your own: ask for a row, get its label from wherever it comes, tell it.
rng = np.random.default_rng(0)
X = rng.standard_t(3, size=(3000, 20))
y = X @ (0.5 * rng.normal(size=20)) + rng.logistic(size=3000) > 0

target = pp.logistic_regression(X, batch_size=1)  # no labels in it
run = pp.Run(pp.Problem(target, target.label_free()), expected_steps=100, rng=0)
for _ in range(100):
    query = run.ask()
    run.tell(observations=y[query.batch])
print(run.ledger.target_samples, "labels paid, none stored")

# %%
# Against SGD and Adam on as many labels, Adam with the best of three step sizes, and against a
# fit of all labels seen so far, which has to keep them. The loss is that of all 3000 rows.
methods = {"proxyprox": pp.ProxyProx("auto"), "SGD, automatic step": pp.SGD("auto")}
methods |= {f"Adam({eta})": pp.Adam(eta) for eta in (0.01, 0.03, 0.1)}
paid = [25, 50, 100, 200, LABELS]
losses = {name: np.zeros((SEEDS, len(paid))) for name in [*methods, "kept and fitted"]}
for seed in range(SEEDS):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(3000, 20))
    y = X @ (0.5 * rng.normal(size=20)) + rng.logistic(size=3000) > 0
    target = pp.logistic_regression(X, y, batch_size=1)
    for name, method in methods.items():
        problem = pp.Problem(target, target.label_free())
        run = pp.Run(problem, method=method, expected_steps=LABELS, rng=seed)
        for k in range(1, LABELS + 1):
            query = run.ask()
            run.tell(observations=y[query.batch])
            if k in paid:
                losses[name][seed, paid.index(k)] = target.value(run.result().w)
    for j, k in enumerate(paid):
        rows = rng.choice(3000, k, replace=False)
        fit = LogisticRegression(fit_intercept=False).fit(X[rows], y[rows])
        losses["kept and fitted"][seed, j] = target.value(fit.coef_[0])

adam = min((n for n in losses if "Adam" in n), key=lambda n: losses[n][:, -1].mean())
shown = ["proxyprox", "SGD, automatic step", adam, "kept and fitted"]
for name, colour in zip(shown, ["#0072B2", "#737373", "#CC79A7", "#D55E00"], strict=True):
    low, middle, high = np.quantile(losses[name], [0, 0.5, 1], axis=0)
    plt.fill_between(paid, low, high, color=colour, alpha=0.12, lw=0)
    plt.plot(paid, middle, "o-", ms=4, color=colour, label=name)
plt.xlabel("labels paid for")
plt.ylabel("loss on all rows: median, range over tables")
plt.legend()
plt.show()

# %%
# With single labels noise limits the step, not curvature, and a proxy changes little: if you may
# keep the labels, fit them. ``proxyprox`` is for labels that may not be kept, and for answers
# that are gradients. With batches of tens of rows it is far ahead of SGD: see :doc:`/one_label`.
