"""Logistic, ridge and Poisson regression on private rows, with public rows as proxy and metric.

Nothing is tuned on private rows. The public fit is the start; its loss is the proxy; its Hessian is
the metric of clipping and noise; and a James–Stein weight decides how far the private gradients
are believed. Everything but the released gradients (and second moments) is public arithmetic.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from proxyprox._util import validation as check
from proxyprox._util.text import list_names
from proxyprox._util.validation import Words, message
from proxyprox.corrections import Plain
from proxyprox.inner.exact import minimise_exactly
from proxyprox.methods import ProxyProx
from proxyprox.minimization import minimize
from proxyprox.private.accounting import (
    Guarantee,
    PrivacyBudget,
    gaussian_mu,
    require_delta,
    total_epsilon,
)
from proxyprox.private.mechanism import (
    JamesStein,
    Metric,
    Private,
    PrivateRows,
    clip_for,
    plan_releases,
)
from proxyprox.private.policy import PRIVATE, Setting
from proxyprox.private.reading import project_rows, row_norms, share_memory, standardise
from proxyprox.problems import Problem, Quadratic
from proxyprox.problems.combination import MixedProxy
from proxyprox.problems.families import Family, Linear, Poisson, check_classes
from proxyprox.problems.glm import GLM, Encoded
from proxyprox.result import Trace
from proxyprox.sklearn import inputs
from proxyprox.sklearn.linear import LinearClassifier, LinearModel, LinearRegressor
from proxyprox.stopping import Residual

Array = Any


# What no guarantee of a fit covers.
NOT_COVERED = (
    "Not covered: steps before this fit that saw private rows (a scaler, imputer or encoder in a "
    "Pipeline), scores on private rows, and other fits of these rows"
)


class PrivateFitWarning(UserWarning):
    """An argument does not suit the public rows, or what was released: the fit will be poor."""


@dataclass(frozen=True)
class PrivacyPlan:
    """What a fit will do, from public numbers alone: printed, it says whether it will pay.

    Attributes
    ----------
    setting : str
        "robust", "same support" or "no public labels".
    releases : int
        Gradients that will be released, and one release of second moments where it is robust.
    sigma, clip, damping : float
        Noise over the clip, the clip in the metric, and what is added to the metric's Hessian.
    n_nominal, n_public : int
        Rows.
    n_effective : float
        Labelled rows without noise that the private ones are worth, ``n/(1 + C²/(μ²n))`` with
        ``C² = c² tr H(H + λ)⁻¹``.
    pays : bool
        Whether they can be expected to improve on the public rows of the same population.
    empty : int
        Columns that are zero in all public rows: their coefficients stay near zero.
    guarantee : Guarantee
        What it will cost.
    """

    setting: str
    releases: int
    sigma: float
    clip: float
    damping: float
    n_nominal: int
    n_public: int
    n_effective: float
    pays: bool
    empty: int
    guarantee: Guarantee

    def __str__(self) -> str:
        worth = f"{self.n_nominal:,} private rows are worth about {self.n_effective:,.0f} labelled"
        if not self.n_public:
            verdict = "there are no public labels to compare with"
        elif self.pays:
            verdict = "they can improve on the public fit"
        else:
            verdict = "unless the populations differ this will not pay"
        kind = f"{self.empty} columns are zero in all public rows: their coefficients stay near 0"
        return (
            f"{worth} rows without noise; public: {self.n_public:,} labelled; {verdict}.\n"
            f"  setting {self.setting}: {self.releases} gradients, σ = {self.sigma:.3g}, "
            f"C = {self.clip:.3g}, λ = {self.damping:.3g}\n"
            + f"  columns {kind}\n" * bool(self.empty) + f"  cost    {self.guarantee}"
        )  # fmt: skip


class Prepared(NamedTuple):
    """All that follows from public rows: the proxy, where to start, the metric and the clip."""

    setting: Setting
    public: GLM
    start: Array
    hessian: Array
    damping: float
    bound: float
    scale: Array
    label_bound: float | None
    centre: Array | None
    spread: Array | None


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGLM(LinearModel):
    """A generalised linear model of private rows with public ones as proxy; abstract."""

    epsilon: float
    delta: float
    n_nominal: int
    bound: float | None = None
    alpha: float | None = None
    same_support: bool | None = None
    scale: str | None = None
    fit_intercept: bool = True
    budget: PrivacyBudget | None = None
    name: str | None = None
    seed: int | None = None

    def fit(self, X: Any, y: Any, X_public: Any = None, y_public: Any = None) -> Self:
        """Fit the private rows, at the cost of epsilon and delta.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, p)
            Private inputs. A row that is not finite counts as absent, one beyond the bound is
            scaled to it: neither is an error, because errors would tell of it.
        y : array of shape (n,)
            Private labels; a row whose label is none counts as absent.
        X_public : array, DataFrame or sparse matrix of shape (m, p)
            Public inputs of the same columns. X itself, or what shares memory with it, is refused;
            a copy is not noticed, since nothing compares values.
        y_public : array of shape (m,), optional
            Their labels.

        Returns
        -------
        self
        """
        for name, own, public in (("X_public", X, X_public), ("y_public", y, y_public)):
            if share_memory(own, public):
                remedy = "Public rows are published by the fit: split them off before."
                got = Words("private ones: both share memory")
                raise ValueError(message(name, got, "other rows than the private ones", remedy))
        ready = self._prepare(X_public, y_public)
        names = getattr(self, "feature_names_in_", None)
        columns = getattr(X, "columns", None)
        if names is not None and columns is None and hasattr(X, "shape"):
            remedy = (
                "A step before this one has changed X alone: a Pipeline with "
                'transform_input=["X_public"] changes both. Or give both as arrays.'
            )
            got = Words("no column names, and X_public has names")
            raise ValueError(message("X", got, "of the public rows' kind", remedy))
        if names is not None and columns is not None and list(columns) != list(names):
            missing = [name for name in columns if name not in set(names)]
            got = Words(f"other columns{f', {missing[:3]} among them' if missing else ''}")
            raise ValueError(message("X", got, "of the public rows' columns, in their order"))
        family, setting = ready.public.family, ready.setting
        rows = PrivateRows(
            X, y, family, intercept=self.fit_intercept, bound=ready.bound, scale=ready.scale,
            label_bound=ready.label_bound, columns=self.n_features_in_, centre=ready.centre,
            spread=ready.spread,
        )  # fmt: skip
        metric = Metric(ready.hessian, ready.damping)
        target = Private(
            rows, epsilon=self.epsilon, delta=self.delta, releases=setting.releases,
            n_nominal=self.n_nominal, metric=metric,
            clip=self._clip(ready, metric),
            matched=ready.public, moments=setting.moments, count=PRIVATE.count,
            l2=self.alpha or 0.0, budget=self.budget, name=self.name, seed=self.seed,
        )  # fmt: skip
        self.rows_, sd = target.count_rows()
        self._check_size(target, sd)
        proxy: Any = ready.public
        if setting.moments:
            proxy = self._add_missing_curvature(ready, target)
        correction: Any = Plain()
        if setting is not PRIVATE.label_free:
            sampling = (target.clip / setting.clip) ** 2 / target.size
            correction = JamesStein(
                target.metric, target.noise_variance, sampling, growing=setting.moments > 0,
                by_curvature=True,
            )  # fmt: skip
        eta = 1 / (ready.damping if setting is PRIVATE.label_free else setting.proximal)
        result = minimize(
            Problem(target, proxy), ready.start, method=ProxyProx(eta=eta, correction=correction),
            steps=setting.releases, stop=Residual(1e-9), rng=0,
        )  # fmt: skip
        # Seconds grow with the true number of rows.
        paid = replace(result.ledger, seconds=0.0, target_seconds=0.0, proxy_seconds=0.0)
        steps = [step._replace(seconds=0.0) for step in result.trace]
        self.result_ = replace(result, ledger=paid, trace=Trace(steps))
        self.privacy_ = replace(target.spent, note=self._note_fit(target))
        self._store(result.w, ready)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that shares the budget; a name resumes one fit only."""
        copy = type(self)(**{**self.get_params(deep=False), "name": None})
        copy.past_fits = self.past_fits
        return copy

    @cached_property
    def past_fits(self) -> list[Any]:
        """The releases of fits without a budget, which clones share in one process."""
        return []

    def _note_fit(self, target: Private) -> str:
        """Return what the guarantee of a fit does not cover, in words."""
        if self.budget is not None:
            return f"{NOT_COVERED} but those that are charged to the budget: see budget.spent."
        fits = self.past_fits
        if self.seed is None:
            fits.append(target.planned)
        if len(fits) < 2:
            return f"{NOT_COVERED}, each at a cost of its own: share a PrivacyBudget."
        spent = total_epsilon([release for fit in fits for release in fit], self.delta)
        told = (
            f"{len(fits)} fits of this estimator and its clones without a budget: together "
            f"ε = {spent:.3g} at δ = {self.delta:.3g}, if they had the same rows"
        )
        if len(fits) == 2:
            text = f"{told}. Give budget=PrivacyBudget(...) to add up all of them."
            warnings.warn(text, PrivateFitWarning, stacklevel=3)
        return f"{NOT_COVERED}. {told}."

    def _check_size(self, target: Private, sd: float) -> None:
        """Divide by the released number of rows if n_nominal is not near it; say if it is far."""
        n, found = self.n_nominal, self.rows_
        if abs(found - n) <= PRIVATE.sure_count * sd:
            return
        target.set_size(max(found, min(n, PRIVATE.known_count * sd)))
        if n / PRIVATE.far_count < found < n * PRIVATE.far_count:
            return
        large = self.delta * found >= 1
        text = (
            f"n_nominal={n:,} is far from the released number of usable rows, {found:,.0f} ± "
            f"{sd:.0f}. Clip and noise were planned for n_nominal rows: give a number nearer to it"
            + (f", and a delta below its inverse, which {self.delta:g} is not." if large else ".")
            + " If there should be more rows, many could not be read." * (found < n)
        )  # fmt: skip
        warnings.warn(text, PrivateFitWarning, stacklevel=3)

    def plan(self, X_public: Any, y_public: Any = None) -> PrivacyPlan:
        """Return what a fit will do, and whether it can be expected to pay; it spends nothing.

        Parameters
        ----------
        X_public, y_public
            As in :meth:`fit`.
        """
        ready = self._prepare(X_public, y_public)
        setting, metric = ready.setting, Metric(ready.hessian, ready.damping)
        clip = self._clip(ready, metric)
        releases = plan_releases(
            self.epsilon, self.delta, setting.releases, moments=setting.moments, count=PRIVATE.count
        )
        effective = self.n_nominal / (1 + self._noise(setting, metric))
        labelled = 0 if y_public is None else ready.public.design.rows
        return PrivacyPlan(
            setting.name, setting.releases, releases[-1].sigma, clip, ready.damping, self.n_nominal,
            labelled, effective, effective >= PRIVATE.worth * labelled,
            int((~np.asarray(abs(ready.public.design.X).sum(axis=0)).ravel().astype(bool)).sum()),
            Guarantee.of(releases, self.delta, private=self.seed is None),
        )  # fmt: skip

    # -- public arithmetic ------------------------------------------------------------------------

    def _prepare(self, X_public: Any, y_public: Any) -> Prepared:
        """Check the arguments and the public rows, and fit those."""
        n = check.whole("n_nominal", self.n_nominal)
        check.positive("epsilon", self.epsilon)
        require_delta(self.delta, n)
        check.flag("fit_intercept", self.fit_intercept)
        if self.same_support is not None:
            check.flag("same_support", self.same_support)
        if self.name is not None and self.budget is None:
            remedy = "A name resumes a fit from a budget's file: give one as budget=."
            raise ValueError(message("name", self.name, "None without a budget", remedy))
        if X_public is None:
            remedy = "They give the clip and the metric; a few hundred rows will do."
            raise ValueError(message("X_public", None, "public rows of X's columns", remedy))
        try:
            X = inputs.validate(self, X_public, name="X_public", reset=True)
        except ValueError as error:
            raise ValueError(f"X_public cannot be used. {error}") from error
        X = X.astype(np.float64)
        constant = self._check_columns(X)
        centre, spread = self._public_scale(X, constant)
        X = standardise(X, centre, spread)
        self._warn_of_outliers(X)
        bound = self._check_bound(row_norms(X))
        X = project_rows(X, bound)
        largest = np.asarray(abs(X).max(axis=0).todense() if scipy.sparse.issparse(X)
                             else np.abs(X).max(axis=0)).ravel()  # fmt: skip
        scale = np.where(largest > 0, largest, bound)
        X = X @ scipy.sparse.diags_array(1 / scale) if scipy.sparse.issparse(X) else X / scale
        unit = float(row_norms(X).max())
        X, scale = X / unit, scale * unit
        X = X.tocsr() if scipy.sparse.issparse(X) else X
        family, label_bound = self._family(y_public)
        setting = PRIVATE.same_support if self.same_support else PRIVATE.robust
        start = np.zeros((X.shape[1] + self.fit_intercept) * family.outputs)
        strength = 0.0 if self.alpha is None else check.nonnegative("alpha", self.alpha)
        if y_public is None:
            public = GLM(X, None, family, l2=strength, intercept=self.fit_intercept)
            hessian = public.hessian(start)
            damping = max(
                PRIVATE.damping,
                _balanced_damping(hessian, n, gaussian_mu(self.epsilon, self.delta)),
            )
            return Prepared(
                PRIVATE.label_free, public, start, hessian, damping, bound, scale, label_bound,
                centre, spread,
            )  # fmt: skip
        public = GLM(X, y_public, family, l2=strength, intercept=self.fit_intercept)
        if self.alpha is None:
            public = choose_strength(public)
        start = minimise_exactly(public, start, tol=1e-10)
        hessian, damping = public.hessian(start), max(PRIVATE.damping, public.l2)
        setting = setting.adapt(self._noise(setting, Metric(hessian, damping)))
        return Prepared(
            setting, public, start, hessian, damping, bound, scale, label_bound, centre, spread
        )

    def _noise(self, setting: Setting, metric: Metric) -> float:
        """Return the variance of the privacy noise over that of the rows' sampling."""
        mu = gaussian_mu(self.epsilon, self.delta) * math.sqrt(1 - setting.moments - PRIVATE.count)
        return setting.clip**2 * metric.degrees_of_freedom / (mu**2 * self.n_nominal)

    def _check_columns(self, X: Any) -> Array:
        """Return which public columns are constant; refuse those that may vary among private rows.

        A category that no public row has is a column of zeros: its curvature is zero, gradients
        along it are not believed, and the robust setting measures how common it is.
        """
        low, high = (
            np.asarray(part.todense() if scipy.sparse.issparse(part) else part).ravel()
            for part in (X.min(axis=0), X.max(axis=0))
        )
        wrong = (low == high) & (low != 0)
        if wrong.any() and self.same_support is not False:
            names = np.asarray(getattr(self, "feature_names_in_", np.arange(len(low))))[wrong]
            got = Words(f"{len(names)} constant columns ({', '.join(map(str, names[:5]))})")
            remedy = (
                "Drop them from both tables, or set same_support=False: then private rows are "
                "expected to differ from public ones."
            )
            raise ValueError(message("X_public", got, "columns that vary", remedy))
        return np.where(low == high, low, np.nan)

    def _public_scale(self, X: Any, constant: Array) -> tuple[Array | None, Array | None]:
        """Return the mean and the standard deviation of public columns, if they are asked for."""
        if self.scale is None:
            return None, None
        check.one_of("scale", self.scale, ("public",))
        sparse = scipy.sparse.issparse(X)
        found = StandardScaler(with_mean=not sparse).fit(X)
        centre = np.zeros(X.shape[1]) if sparse else found.mean_
        # A constant column has no spread, but it has a size.
        size = np.where(np.isnan(constant) | (constant == 0), 1.0, np.abs(constant))
        return centre, np.where(np.isnan(constant), found.scale_, size)

    def _check_bound(self, lengths: Array) -> float:
        """Return the bound on a row's norm; warn of one that shortens most public rows."""
        bound = float(lengths.max()) if self.bound is None else check.positive("bound", self.bound)
        if not bound > 0:
            raise ValueError(message("X_public", Words("zeros only"), "rows that differ"))
        if np.median(lengths) > bound:
            share = float(np.mean(lengths > bound))
            unit = "" if self.scale is None else " after scaling"
            warnings.warn(
                f"bound={bound:g} is below the norm of {share:.0%} of the public rows, whose "
                f"median{unit} is {np.median(lengths):.3g}: they are shortened to it, and so are "
                "private ones and those that are predicted. Leave it out, or take one near "
                f"{np.quantile(lengths, 0.99):.3g}.",
                PrivateFitWarning, stacklevel=4,
            )  # fmt: skip
        return bound

    def _clip(self, ready: Prepared, metric: Metric) -> float:
        """Return the clip: a multiple of the usual length of a public row's gradient."""
        # Without public labels half the bound stands for the usual residual.
        usual = 1.0 if ready.label_bound is None else ready.label_bound / 2
        return clip_for(ready.public, ready.start, metric, ready.setting.clip, usual)

    def _warn_of_outliers(self, X: Any) -> None:
        """Warn of public columns whose largest entry, by which they are divided, is far out.

        The others' squares, their curvature, then lie below the damping.
        """
        if scipy.sparse.issparse(X):
            return
        sizes = np.abs(X)
        largest, usual = sizes.max(axis=0), np.quantile(sizes, 0.95, axis=0)
        odd = np.flatnonzero((usual > 0) & (usual < math.sqrt(PRIVATE.damping) * largest))
        if len(odd):
            names = np.asarray(getattr(self, "feature_names_in_", np.arange(X.shape[1])))[odd]
            warnings.warn(
                f"X_public: columns are divided by their largest entry, and that of "
                f"{list_names(list(map(str, names)))} is far above those of other rows. Remove "
                "such rows: what they hold is lost for the private rows, too.",
                PrivateFitWarning, stacklevel=4,
            )  # fmt: skip

    def _add_missing_curvature(self, ready: Prepared, target: Private) -> Any:
        """Return the proxy, and set the metric, with curvature where public rows have too little.

        If a column is rare among public rows and common among private ones, the public loss is
        nearly flat: steps along it would be too long, and rows that have it clipped hard.
        """
        X, family = ready.public.design.X, ready.public.family
        squares = X.multiply(X).tocsr() if scipy.sparse.issparse(X) else X * X
        clip = 2 * math.sqrt(float(np.mean(row_norms(squares) ** 2)))
        private, sd = target.second_moments(clip)
        # A column that is constant among public rows, one for all, say, varies among private ones
        # where it is less common: that direction, too, is flat in the public loss.
        gap = np.abs(private - np.asarray(squares.mean(axis=0)).ravel())
        lacking = np.maximum(gap - sd, 0.0)
        z = ready.public.design.predict(ready.start.reshape(-1, family.outputs))
        z = z.ravel() if family.outputs == 1 else z
        usual = family.expected_curvature(z)
        usual = usual if family.outputs == 1 else np.einsum("icc->ic", usual)
        extra = PRIVATE.extra_curvature * float(np.mean(usual)) * lacking
        extra = np.append(extra, 0.0) if self.fit_intercept else extra
        extra = np.repeat(extra, family.outputs)
        if not extra.any():
            return ready.public
        target.set_metric(Metric(ready.hessian + np.diag(extra), ready.damping))
        around = Quadratic(np.diag(extra), b=-extra * ready.start)
        return MixedProxy([ready.public, around], [1.0, 1.0])

    # -- what differs between estimators ----------------------------------------------------------

    def _family(self, y_public: Any) -> tuple[Family, float | None]:
        """Return the family, and the bound on numeric labels."""
        raise NotImplementedError(f"{type(self).__name__} must define _family(y_public)")

    def _store(self, w: Array, ready: Prepared) -> None:
        """Note the coefficients in the user's units, and how rows are shortened."""
        count = len(ready.scale)
        self.bound_ = ready.bound
        self._centre = np.zeros(count) if ready.centre is None else ready.centre
        self._spread = np.ones(count) if ready.spread is None else ready.spread
        coef, constants = self._shape(w)
        self.coef_ = coef / ready.scale / self._spread
        self.intercept_ = constants - self.coef_ @ self._centre

    def _predictors(self, X: Any) -> Array:
        """Return the linear predictors of rows, shortened to the bound as those of the fit were."""
        check_is_fitted(self, "coef_")
        X = standardise(inputs.validate(self, X).astype(np.float64), self._centre, self._spread)
        coef = np.atleast_2d(self.coef_)
        constants = self.intercept_ + coef @ self._centre
        return np.asarray(project_rows(X, self.bound_) @ (coef * self._spread).T) + constants


class PrivateRegressor(LinearRegressor, PrivateGLM):
    """A regression on private rows; abstract."""

    label_bound: float | None

    def _family(self, y_public: Any) -> tuple[Family, float | None]:
        bound = self.label_bound
        if bound is None and y_public is None:
            remedy = "Without public labels nothing tells how large labels are."
            raise ValueError(message("label_bound", None, "a bound on |y|", remedy))
        if bound is None:
            bound = float(np.abs(self.family.encode(np.asarray(y_public))).max())
        return self.family, check.positive("label_bound", bound)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(LinearClassifier, PrivateGLM):
    """Logistic regression on private rows, with public rows as proxy; nothing is tuned.

    Parameters
    ----------
    epsilon, delta : float
        What a fit may cost, for tables that differ by one row; delta below 1/n_nominal.
    n_nominal : int
        A public number near that of the private rows, whose true number is private.
    classes : sequence, optional
        All classes; by default those of the public labels.
    bound : float, optional
        The largest norm of a row; longer ones are scaled to it, for the fit and for predictions. By
        default that of the longest public row. With ``scale`` it is one of scaled rows.
    alpha : float, optional
        Strength of the L2 penalty on the mean loss, in units where columns have public maximum one
        and the longest public row length one. By default cross-validation picks one for the public
        loss alone: the private rows, as far as they are believed, take it back.
    same_support : bool, optional
        True asserts that public rows are of the private rows' population, which saves the twentieth
        of the budget that is spent on finding out where they are not. False expects them not
        to be. By default they may differ. Public columns that are constant and not zero are
        refused unless it is False.
    scale : {"public"}, optional
        Take the public mean off each column and divide it by the public standard deviation before
        the bound is applied (sparse rows are only divided). Coefficients are of the columns as they
        are given. By default columns are divided by their public maximum after the bound.
    fit_intercept : bool
        Whether a constant is fitted.
    budget : PrivacyBudget, optional
        What is charged, together with other fits; by default each fit has a budget of its own.
    name : str, optional
        A name by which a killed fit is resumed from the budget's file.
    seed : int, optional
        For tests: seeded noise, NOT PRIVATE.

    Attributes
    ----------
    coef_, intercept_, classes_ : arrays
        As in scikit-learn's ``LogisticRegression``.
    privacy_ : Guarantee
        What the fit cost; printed, with the neighbour relation, sampling and accountant, and with
        what is not covered.
    rows_ : float
        The noisy number of private rows that could be read, a hundredth of the budget. If
        ``n_nominal`` is clearly another, sums are divided by this one.
    bound_ : float
        The bound on a row's norm.
    result_ : Result
        The run: released gradients and public arithmetic, nothing private.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = (X @ [1.0, -2.0, 0.5] + rng.logistic(size=5000) > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], n_nominal=4500)
    >>> print(model.plan(X[:500], y[:500]))  # doctest: +ELLIPSIS
    4,500 private rows are worth about ... labelled rows without noise; public: 500 labelled; ...
    >>> _ = model.fit(X[500:], y[500:], X_public=X[:500], y_public=y[:500])
    >>> bool(np.mean(model.predict(X) == y) > 0.8)
    True
    """

    classes: Any = None

    def _family(self, y_public: Any) -> tuple[Family, float | None]:
        if self.classes is None and y_public is None:
            remedy = "Without public labels nothing tells them but private ones."
            raise ValueError(message("classes", None, "all classes", remedy))
        self.classes_ = np.asarray(check_classes(self.classes, y_public, binary=False))
        if y_public is not None and len(set(np.asarray(y_public).ravel().tolist())) < 2:
            remedy = "With one class there is no public fit to start from: leave y_public out."
            raise ValueError(message("y_public", Words("one class"), "of two or more", remedy))
        return self.family, None


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(PrivateRegressor):
    """Least squares with an L2 penalty on private rows; see :class:`PrivateLogisticRegression`.

    Parameters
    ----------
    epsilon, delta, n_nominal, bound, alpha, same_support, scale, fit_intercept, budget, name, seed
        As in :class:`PrivateLogisticRegression`.
    label_bound : float, optional
        Labels beyond ±label_bound are set to it; by default the largest public one.

    Attributes
    ----------
    coef_, intercept_ : array, float
        As in scikit-learn's ``Ridge``.
    privacy_, rows_, bound_, result_
        As in :class:`PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + rng.normal(size=5000)
    >>> model = PrivateRidge(epsilon=1.0, delta=1e-5, n_nominal=4500)
    >>> model.fit(X[500:], y[500:], X_public=X[:500], y_public=y[:500]).coef_.round(0)
    array([ 1., -2.,  0.])
    """

    label_bound: float | None = None
    family = Linear()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegressor(PrivateRegressor):
    """Poisson regression with a log link on private rows; see :class:`PrivateLogisticRegression`.

    Parameters
    ----------
    epsilon, delta, n_nominal, bound, alpha, same_support, scale, fit_intercept, budget, name, seed
        As in :class:`PrivateLogisticRegression`.
    label_bound : float, optional
        Counts above it are set to it; by default the largest public one.

    Attributes
    ----------
    coef_, intercept_ : array, float
        As in scikit-learn's ``PoissonRegressor``.
    privacy_, rows_, bound_, result_
        As in :class:`PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 2))
    >>> y = rng.poisson(np.exp(X @ [1.0, -1.0]))
    >>> model = PrivatePoissonRegressor(epsilon=1.0, delta=1e-5, n_nominal=4500)
    >>> model.fit(X[500:], y[500:], X_public=X[:500], y_public=y[:500]).coef_.round(0)
    array([ 1., -1.])
    """

    label_bound: float | None = None
    family = Poisson()


# -- public arithmetic ----------------------------------------------------------------------------


def choose_strength(public: GLM) -> GLM:
    """Return the public loss with the L2 strength that cross-validation picks."""
    rows, design, family = public.design.rows, public.design, public.family
    folds = np.random.default_rng(0).permutation(rows) % max(2, min(5, rows))
    losses = np.zeros(len(PRIVATE.strengths))
    for fold in np.unique(folds):
        inside, outside = (
            GLM(design.take(part), Encoded(public.targets[part]), family, l2=0.0)
            for part in (np.flatnonzero(folds != fold), np.flatnonzero(folds == fold))
        )
        w = public.zeros()
        for place in reversed(range(len(PRIVATE.strengths))):
            loss = GLM(inside.design, Encoded(inside.targets), family, l2=PRIVATE.strengths[place])
            w = minimise_exactly(loss, w, tol=1e-6)
            losses[place] += outside.value(w) * outside.design.rows
    best = PRIVATE.strengths[int(np.argmin(losses))]
    return GLM(design, Encoded(public.targets), family, l2=best)


def _balanced_damping(hessian: Array, rows: int, mu: float) -> float:
    """Return the λ that balances the noise of K releases against the distance they can go."""
    values = np.maximum(np.linalg.eigvalsh(hessian), 0.0)
    grid, K = np.geomspace(1e-5, 1.0, 101), PRIVATE.label_free.releases
    known = (values / (values + grid[:, None])).sum(axis=1)
    errors = known**2 * K / (mu * rows) ** 2 + grid / K * PRIVATE.distance**2
    return float(grid[np.argmin(errors)])
