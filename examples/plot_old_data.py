"""
Old data, drifted
=================

Last year's table is large, but the rule has changed since. This year there are few labels. Pass
the old rows as ``X_proxy`` and ``y_proxy``: your labels decide how far they are believed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss

from proxyprox.sklearn import ProxyLogisticRegression

SEEDS = 3
LABELS = [50, 100, 200, 400]


# %%
# The old coefficients are turned away from the new ones by an angle: 30° is a mild drift.
def table(seed, degrees=30):
    """Return new rows, old rows, a test set and its least loss."""
    rng = np.random.default_rng(seed)
    now, other = rng.normal(size=(2, 15))
    other -= now * (other @ now) / (now @ now)
    other *= np.linalg.norm(now) / np.linalg.norm(other)
    then = np.cos(np.radians(degrees)) * now + np.sin(np.radians(degrees)) * other
    X = rng.normal(size=(13_000, 15))
    z = np.r_[X[:11_000] @ now, X[11_000:] @ then]
    y = (z + rng.logistic(size=len(z)) > 0).astype(int)
    test = X[1000:11_000], y[1000:11_000]
    least = log_loss(test[1], 1 / (1 + np.exp(-z[1000:11_000])))
    return (X[:1000], y[:1000]), (X[11_000:], y[11_000:]), test, least


(X, y), (X_old, y_old), test, least = table(0)
model = ProxyLogisticRegression().fit(X[:100], y[:100], X_proxy=X_old, y_proxy=y_old)
print(model.choice_)


# %%
# The rivals: the new labels alone, the old rows alone, and both in one weighted fit, with the
# weight chosen by cross-validation.
def mixed(X, y, X_old, y_old):
    """Fit old and new rows together; choose the weight of the old ones by three folds."""
    weights, folds, losses = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0], np.arange(len(y)) % 3, []

    def fit(rows, weight):
        inputs, labels = np.r_[X[rows], X_old], np.r_[y[rows], y_old]
        return LogisticRegression().fit(
            inputs, labels, sample_weight=np.r_[np.ones(rows.sum()), np.full(len(y_old), weight)]
        )

    for weight in weights:
        fits = [fit(folds != f, weight) for f in range(3)]
        parts = [
            log_loss(y[folds == f], m.predict_proba(X[folds == f])[:, 1], labels=[0, 1])
            for f, m in enumerate(fits)
        ]
        losses.append(np.mean(parts))
    return fit(folds >= 0, weights[int(np.argmin(losses))])


found = {}
for seed in range(SEEDS):
    (X, y), (X_old, y_old), (X_test, y_test), least = table(seed)
    for n in LABELS:
        plain = {"scoring": "neg_log_loss", "use_legacy_attributes": False, "l1_ratios": (0,)}
        models = {
            "proxyprox": ProxyLogisticRegression(cv=3).fit(
                X[:n], y[:n], X_proxy=X_old, y_proxy=y_old
            ),
            "new labels alone": LogisticRegressionCV(cv=5, **plain).fit(X[:n], y[:n]),
            "old data alone": LogisticRegression().fit(X_old, y_old),
            "mixed, weight tuned": mixed(X[:n], y[:n], X_old, y_old),
        }
        for name, model in models.items():
            loss = log_loss(y_test, model.predict_proba(X_test)[:, 1])
            found.setdefault((name, n), []).append(loss - least)

# %%
names = ["proxyprox", "new labels alone", "old data alone", "mixed, weight tuned"]
for name, colour in zip(names, ["#0072B2", "#737373", "#009E73", "#D55E00"], strict=True):
    values = np.array([found[name, n] for n in LABELS])
    plt.fill_between(LABELS, values.min(1), values.max(1), color=colour, alpha=0.12, lw=0)
    plt.plot(LABELS, values.mean(1), "o-", ms=4, color=colour, label=name)
plt.xscale("log")
plt.xticks(LABELS, LABELS)
plt.minorticks_off()
plt.xlabel("new labels paid for")
plt.ylabel("test log-loss above the least one: mean, range")
plt.legend()
plt.show()

# %%
# Fine-tuning from the old fit, mixing, or ignoring the old rows: the labels choose, and
# ``choice_`` says why. With about fifty labels the choice can be wrong; if you *know* that the old
# rows are good, a mixture with a tuned weight is as safe. :doc:`/other_data` has 23 cases.
