"""
Buying labels
=============

Nothing is labelled yet, and there is money for some hundred labels. ``LabelBudget`` says which
rows to ask about, and with ``path=`` every answer is on disk before it counts.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression

SEEDS = 4
LABELS = 240


# %%
# One row in twelve is of the class that matters.
def table(seed):
    """Return a pool, a test set and its least loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(13_000, 10))
    z = X @ rng.normal(size=10) / 1.5 - 3.3
    y = (z + rng.logistic(size=len(z)) > 0).astype(int)
    least = log_loss(y[3000:], 1 / (1 + np.exp(-z[3000:])))
    return X[:3000], y[:3000], X[3000:], y[3000:], least


# %%
# Buy 40 labels at a time and fit: rows drawn at random, or those the model is unsure of, each
# weighted by the inverse of its chance.
def buy(X, y, criterion, seed):
    """Yield a fit after each batch."""
    model = ProxyLogisticRegression(cv=3)
    options = {"budget": LABELS, "batch_size": 40, "criterion": criterion, "rng": seed}
    budget = LabelBudget(model, X, **options)
    while budget.finished is None:
        rows = budget.ask()
        budget.tell(rows, y[rows])
        if len(set(budget.labels.values())) == 2:
            yield budget.spent, budget.fit()


# %%
# The rivals use scikit-learn: random rows, and the classic of active learning, the rows of least
# margin, without weights.
def scikit_learn(X, y, seed, margin):
    """Yield a fit after each batch."""
    rng, known = np.random.default_rng(seed), []
    while len(known) < LABELS:
        rest = np.setdiff1d(np.arange(len(X)), known)
        if margin and len(known) and len(set(y[known])) == 2:
            rest = rest[np.argsort(abs(fit.decision_function(X[rest])))[:40]]
        known += rng.choice(rest, 40, replace=False).tolist()
        if len(set(y[known])) == 2:
            fit = LogisticRegression().fit(X[known], y[known])
            yield len(known), fit


shown = {
    "proxyprox, unsure rows": ("#0072B2", lambda X, y, s: buy(X, y, "uncertainty", s)),
    "proxyprox, random rows": ("#3D9BD0", lambda X, y, s: buy(X, y, "uniform", s)),
    "scikit-learn, random rows": ("#737373", lambda X, y, s: scikit_learn(X, y, s, False)),
    "scikit-learn, least margin": ("#D55E00", lambda X, y, s: scikit_learn(X, y, s, True)),
}
for name, (colour, fits) in shown.items():
    paid, losses = [], []
    for seed in range(SEEDS):
        X, y, X_test, y_test, least = table(seed)
        for spent, model in fits(X, y, seed):
            paid.append(spent)
            losses.append(log_loss(y_test, model.predict_proba(X_test)[:, 1]) - least)
    # Batches by criterion come out a little smaller than 40: means are over neighbouring counts.
    paid, losses = np.array(paid), np.array(losses)
    bins = [abs(paid - n) <= 20 for n in range(40, LABELS + 1, 40)]
    bins = [near for near in bins if near.any()]
    means = [(paid[near].mean(), losses[near].mean()) for near in bins]
    plt.scatter(paid, losses, s=6, color=colour, alpha=0.4, lw=0)
    plt.plot(*zip(*means, strict=True), "o-", ms=4, color=colour, label=name)
plt.yscale("log")
plt.xlabel("labels paid for")
plt.ylabel("test log-loss above the least one: runs, means")
plt.legend()
plt.show()

# %%
# At a terminal, with a person as the oracle: ``proxyprox label ROWS.csv --classes yes,no``. See
# :doc:`/labelling`.
