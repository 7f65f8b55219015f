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

SEEDS = 5
LABELS = 300


# %%
# A rare class, and a rule that no linear model gets quite right, as in most tables.
def table(seed):
    """Return a pool, a test set and its least loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(13_000, 10))
    z = X @ rng.normal(size=10) / 1.5 + X[:, 0] * X[:, 1] + X[:, 2] ** 2 - 3.5
    y = (z + rng.logistic(size=len(z)) > 0).astype(int)
    least = log_loss(y[3000:], 1 / (1 + np.exp(-z[3000:])))
    return X[:3000], y[:3000], X[3000:], y[3000:], least


# %%
# Buy 60 labels at a time and fit: rows drawn at random, or three quarters of them those that
# the model is least sure of.
def buy(X, y, criterion, seed):
    """Yield a fit after each batch."""
    model = ProxyLogisticRegression(cv=3)
    options = {"budget": LABELS, "batch_size": 60, "criterion": criterion, "rng": seed}
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
    rng, known, fit = np.random.default_rng(seed), [], None
    while len(known) < LABELS:
        rest = np.setdiff1d(np.arange(len(X)), known)
        if margin and fit is not None:
            rest = rest[np.argsort(abs(fit.decision_function(X[rest])))[:60]]
        known += rng.choice(rest, 60, replace=False).tolist()
        if len(set(y[known])) == 2:
            fit = LogisticRegression().fit(X[known], y[known])
            yield len(known), fit


shown = {
    "proxyprox, least margin": ("#0072B2", lambda X, y, s: buy(X, y, "margin", s)),
    "proxyprox, random rows": ("#3D9BD0", lambda X, y, s: buy(X, y, "uniform", s)),
    "scikit-learn, random rows": ("#737373", lambda X, y, s: scikit_learn(X, y, s, False)),
    "scikit-learn, least margin": ("#D55E00", lambda X, y, s: scikit_learn(X, y, s, True)),
}
_, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, (colour, fits) in shown.items():
    found = []
    for seed in range(SEEDS):
        X, y, X_test, y_test, least = table(seed)
        for spent, model in fits(X, y, seed):
            share = model.predict_proba(X)[:, 1].mean()
            if hasattr(model, "mean_prediction"):
                share = model.mean_prediction(X).estimate
            loss = log_loss(y_test, model.predict_proba(X_test)[:, 1]) - least
            found.append((60 * round(spent / 60), loss, abs(share - y.mean())))
    paid, losses, errors = np.array(found).T
    for axis, values in ((left, losses), (right, errors)):
        means = [values[paid == n].mean() for n in np.unique(paid)]
        axis.plot(np.unique(paid), means, "o-", ms=4, color=colour, label=name)
left.set(yscale="log", xlabel="labels paid for", ylabel="test log-loss above the least one")
right.set(xlabel="labels paid for", ylabel="error of the share of rows that matter")
left.legend()
plt.show()

# %%
# If the model is not quite right, as here, rows of least margin mislead it, and what they say about
# the share of the class is biased, although a quarter of them are drawn at random: take random
# rows then. On most tables of :doc:`/labelling` the least margin is better. At a terminal, with a
# person as the oracle: ``proxyprox label ROWS.csv --classes yes,no``.
