"""Logistic, ridge and Poisson regression on private rows, with public rows as proxy and metric.

Nothing is tuned on private rows. The public fit is the start; its loss is the proxy; its Hessian is
the metric of clipping and noise; and a James–Stein weight decides how far the private gradients
are believed. Everything but the released gradients (and second moments) is public arithmetic.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from proxyprox import __version__
from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message
from proxyprox.corrections import Mean
from proxyprox.inner.exact import minimise_exactly
from proxyprox.methods import ProxyProx
from proxyprox.minimization import minimize
from proxyprox.private.accounting import (
    MECHANISM,
    FitPage,
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
    clipping,
    plan_releases,
)
from proxyprox.private.policy import PRIVATE
from proxyprox.private.reading import Scaling, read_rows, row_norms, share_memory
from proxyprox.private.synthetic import LARGEST_MOMENT, noise_edge, synthetic_rows
from proxyprox.problems import Problem, Quadratic
from proxyprox.problems.combination import MixedProxy
from proxyprox.problems.families import Family, Linear, Poisson, check_classes
from proxyprox.problems.glm import GLM
from proxyprox.result import Trace
from proxyprox.sklearn import inputs
from proxyprox.sklearn.fitting import best_strength
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
        "public rows", "no public labels" or "no public rows".
    share : float
        Share of the budget for second moments of the private rows.
    releases : int
        Gradients that will be released, beside a count and second moments.
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
        Columns that do not vary among public rows: their coefficients stay near zero unless many
        private rows have them.
    scaling : Scaling
        What is done to rows: the bound, the cuts, the centres and the units of columns.
    guarantee : Guarantee
        What it will cost.
    """

    setting: str
    share: float
    releases: int
    sigma: float
    clip: float
    damping: float
    n_nominal: int
    n_public: int
    n_effective: float
    pays: bool
    empty: int
    scaling: Scaling
    guarantee: Guarantee

    def __str__(self) -> str:
        worth = f"{self.n_nominal:,} private rows are worth about {self.n_effective:,.0f} labelled"
        if not self.n_public:
            verdict = "there are no public labels to compare with"
        elif self.pays:
            verdict = "they can improve on the public fit"
        else:
            verdict = "unless the populations differ this will not pay"
        share = f"{self.share:.1%} of the budget for second moments, " if self.share else ""
        kind = f"{self.empty} do not vary among public rows: only private ones tell of them"
        return (
            f"{worth} rows without noise; public: {self.n_public:,} labelled; {verdict}.\n"
            f"  setting {self.setting}: {share}{self.releases} gradients, σ = {self.sigma:.3g}, "
            f"C = {self.clip:.3g}, λ = {self.damping:.3g}\n"
            + f"  columns {kind}\n" * bool(self.empty) + f"  cost    {self.guarantee}"
        )  # fmt: skip


class Prepared(NamedTuple):
    """All that follows from public rows: the proxy, where to start, the metric and the clip."""

    setting: str
    moments: float
    public: GLM
    start: Array
    metric: Metric
    clip: float
    scaling: Scaling
    label_bound: float | None


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGLM(LinearModel):
    """A generalised linear model of private rows with public ones as proxy; abstract."""

    epsilon: float
    delta: float
    n_nominal: int
    bound: float | None = None
    alpha: float | None = None
    scale: str | None = "public"
    moments: float | None = None
    fit_intercept: bool = True
    budget: PrivacyBudget | None = None
    name: str | None = None
    data: str | None = None

    def fit(self, X: Any, y: Any, X_public: Any = None, y_public: Any = None) -> Self:
        """Fit the private rows, at the cost of epsilon and delta.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, p)
            Private inputs. A row that is not finite counts as absent, one beyond the bound is
            scaled to it: neither is an error, because errors would tell of it.
        y : array of shape (n,)
            Private labels; a row whose label is none counts as absent.
        X_public : array, DataFrame or sparse matrix of shape (m, p), optional
            Public inputs of the same columns. X itself, or what shares memory with it, is refused;
            a copy is not noticed, since nothing compares values. Without public rows a share of
            the budget buys second moments, and synthetic rows of those moments take their place.
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
        columns = read_rows(X, None, Scaling())[0].shape[1] if X_public is None else None
        ready = self._prepare(X_public, y_public, columns)
        self._check_names(X, columns)
        rows = PrivateRows(
            X, y, ready.public.family, intercept=self.fit_intercept, scaling=ready.scaling,
            label_bound=ready.label_bound, columns=self.n_features_in_,
        )  # fmt: skip
        target = Private(
            rows, epsilon=self.epsilon, delta=self.delta, releases=PRIVATE.releases,
            n_nominal=self.n_nominal, metric=ready.metric, clip=ready.clip, matched=ready.public,
            moments=ready.moments, count=PRIVATE.count, l2=self.alpha or 0.0, budget=self.budget,
            name=self.name,
        )  # fmt: skip
        self.rows_, sd = target.count_rows()
        self._check_size(target, sd)
        labelled = ready.public.targets is not None
        proxy: Any = ready.public
        if ready.moments and labelled:
            proxy = self._add_missing_curvature(ready, target)
        elif ready.moments:
            ready = self._with_synthetic_rows(ready, target)
        at = clipping(ready.public, ready.start, target.metric, target.clip)
        # Variances of a release and of the rows' own mean, in the metric.
        noise, sampling = target.noise_variance, at.spread * at.length**2 / target.size
        noise, sampling = noise / at.kept**2, sampling / at.kept**2
        correction: Any = Mean()
        early = 0.0
        if labelled:
            known = 1 / ready.public.design.rows
            correction = JamesStein(target.metric, noise, sampling, expected=known)
        else:
            penalty = self._prior(ready, noise / PRIVATE.releases, sampling)
            target.adjust(penalty=penalty)
            proxy = MixedProxy([ready.public, Quadratic(penalty)], [1.0, 1.0])
            # The mean of the first k releases has K/k times the variance of the last one.
            early = PRIVATE.early * float(np.linalg.eigvalsh(penalty)[0])
        result = minimize(
            Problem(target, proxy), ready.start, rng=0, steps=PRIVATE.releases, stop=Residual(1e-9),
            method=ProxyProx(
                eta=lambda k: 1 / (PRIVATE.proximal + early * (PRIVATE.releases / (k + 1) - 1)),
                correction=correction,
            ),
        )  # fmt: skip
        # Seconds grow with the true number of rows.
        paid = replace(result.ledger, seconds=0.0, target_seconds=0.0, proxy_seconds=0.0)
        steps = [step._replace(seconds=0.0) for step in result.trace]
        self.result_ = replace(result, ledger=paid, trace=Trace(steps))
        self.privacy_ = replace(target.spent, note=self._note_fit(target))
        self.page_ = self._fit_page(target, ready.setting)
        self._store(result.w, ready)
        return self

    def _prior(self, ready: Prepared, noise: float, sampling: float) -> Array:
        """Return the penalty of coefficients that are normal around zero.

        A mean gradient ``h w − s`` of variance v and ``w ~ N(0, τ²)`` are most likely together at
        ``h w − s + v w/(h τ²) = 0``.
        """
        metric, family = ready.metric, ready.public.family
        label = ready.label_bound if isinstance(family, Linear) else None
        prior = PRIVATE.prior * (1.0 if label is None else (label / 2) ** 2)
        share = metric.known / max(float(metric.known.sum()), 1e-300)
        variance = noise / metric.dim + sampling * share
        return metric.with_eigenvalues(variance / (np.maximum(metric.known, 1e-6) * prior))

    def _check_names(self, X: Any, count: int | None) -> None:
        """Compare the names of X's columns with those of public rows, or note them."""
        names, given = getattr(self, "feature_names_in_", None), list(getattr(X, "columns", ()))
        if count is not None:
            self.n_features_in_ = count
            if given and all(isinstance(name, str) for name in given):
                self.feature_names_in_ = np.asarray(given, dtype=object)
        elif names is not None and hasattr(X, "shape") and given != list(names):
            got = Words("other columns, or their order" if given else "no column names")
            remedy = (
                "A step before this one may have changed X alone: a Pipeline with "
                'transform_input=["X_public"] changes both. Or give both as arrays.'
            )
            allowed = f"of the public rows' columns, {list(names)}"
            raise ValueError(message("X", got, allowed, remedy))

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

    def _fit_page(self, target: Private, setting: str) -> FitPage:
        sigmas = Counter(target.planned)
        spent, place = self.privacy_, target.budget.path or "memory"
        return FitPage({
            "fit": f"{type(self).__name__} on {self.data or 'data not named'}",
            "made": f"{datetime.now(UTC).isoformat(timespec='seconds')} by proxyprox {__version__}",
            "cost": str(replace(spent, note="")), "epsilon": spent.epsilon, "delta": spent.delta,
            "mechanism": MECHANISM,
            "releases": "; ".join(f"{n} with σ = {sigma:.6g}" for sigma, n in sigmas.items()),
            "clip": f"{target.clip:.6g} in the norm of: {target.metric!r}",
            "n_nominal": self.n_nominal, "setting": setting,
            "budget": f"{target.budget.id} in {place}, plan {target.name}", "note": spent.note,
        })  # fmt: skip

    def _check_size(self, target: Private, sd: float) -> None:
        """Divide by the released number of rows if n_nominal is not near it; say if it is far."""
        n, found = self.n_nominal, self.rows_
        if abs(found - n) <= PRIVATE.sure_count * sd:
            return
        target.adjust(size=max(found, min(n, 10 * PRIVATE.sure_count * sd)))
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

    def plan(
        self, X_public: Any = None, y_public: Any = None, *, columns: int | None = None
    ) -> PrivacyPlan:
        """Return what a fit will do, and whether it can be expected to pay; it spends nothing.

        Parameters
        ----------
        X_public, y_public
            As in :meth:`fit`.
        columns : int, optional
            How many columns the private rows have, if there are no public ones.
        """
        ready = self._prepare(X_public, y_public, columns)
        metric, public = ready.metric, ready.public
        sigmas = plan_releases(
            self.epsilon, self.delta, PRIVATE.releases, ready.moments, PRIVATE.count
        )
        kept = 1.0 if X_public is None else clipping(public, ready.start, metric, ready.clip).kept
        noise = (sigmas[-1] * ready.clip / kept) ** 2 / (PRIVATE.releases * self.n_nominal)
        noise *= metric.dim
        effective = self.n_nominal / (1 + noise / max(metric.degrees_of_freedom, 1e-9))
        labelled = 0 if public.targets is None else public.design.rows
        empty = ~np.asarray(abs(public.design.X).sum(axis=0)).ravel().astype(bool)
        return PrivacyPlan(
            ready.setting, ready.moments, PRIVATE.releases, sigmas[-1], ready.clip,
            metric.damping, self.n_nominal, labelled, effective,
            effective >= PRIVATE.worth * labelled, int(empty.sum()), ready.scaling,
            Guarantee.of(sigmas, self.delta),
        )  # fmt: skip

    # -- public arithmetic ------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        """Check what does not depend on rows."""
        check.whole("n_nominal", self.n_nominal)
        check.positive("epsilon", self.epsilon)
        require_delta(self.delta, self.n_nominal)
        check.flag("fit_intercept", self.fit_intercept)
        optional: dict[str, Any] = {
            "bound": check.positive, "alpha": check.nonnegative, "moments": check.below_one,
            "data": partial(check.instance, kind=str, allowed="text"),
            "scale": partial(check.one_of, names=("public",)),
        }  # fmt: skip
        for name, require in optional.items():
            if (given := getattr(self, name)) is not None:
                require(name, given)
        if self.name is not None and self.budget is None:
            remedy = "A name resumes a fit from a budget's file: give one as budget=."
            raise ValueError(message("name", self.name, "None without a budget", remedy))

    def _prepare(self, X_public: Any, y_public: Any, columns: int | None = None) -> Prepared:
        """Check the arguments and the public rows, and fit those; say all that is known of rows."""
        self._check_arguments()
        blind = X_public is None
        X, scaling = self._blind_rows(columns, y_public) if blind else self._public_rows(X_public)
        family, label_bound = self._family(y_public)
        start = np.zeros((X.shape[1] + self.fit_intercept) * family.outputs)
        try:
            public = GLM(X, y_public, family, l2=self.alpha or 0.0, intercept=self.fit_intercept)
        except (TypeError, ValueError) as error:
            # It calls them y, which are the private labels here.
            raise type(error)(f"y_public cannot be used. {error}") from error
        name, moments = "no public labels", 0.0
        if blind or y_public is not None:
            name = "no public rows" if blind else "public rows"
            moments = PRIVATE.moments if self.moments is None else self.moments
        if y_public is not None:
            public = choose_strength(public) if self.alpha is None else public
            start = minimise_exactly(public, start, tol=1e-10)
        metric, clip = self._choose_metric(public, start, label_bound)
        return Prepared(name, moments, public, start, metric, clip, scaling, label_bound)

    def _public_rows(self, X_public: Any) -> tuple[Any, Scaling]:
        """Return checked and scaled public rows, and their scaling."""
        try:
            X = inputs.validate(self, X_public, name="X_public", reset=True).astype(np.float64)
        except ValueError as error:
            raise ValueError(f"X_public cannot be used. {error}") from error
        self._check_bound(row_norms(X))
        scaling = Scaling.of(X, self.bound, PRIVATE.tail)
        if self.scale is None:
            usual = math.sqrt(float(np.mean(row_norms(Scaling(self.bound)(X)) ** 2))) or 1.0
            scaling = Scaling(self.bound, spread=usual)
        X = scaling(X)
        if not row_norms(X).any():
            raise ValueError(message("X_public", Words("rows all alike"), "rows that differ"))
        return X, scaling

    def _blind_rows(self, columns: Any, y_public: Any) -> tuple[Any, Scaling]:
        """Return rows that are alike in all directions: nothing but the bound is known yet."""
        columns = check.whole("columns: X_public is None, and columns", columns)
        if self.bound is None or y_public is not None:
            remedy = "They give the clip and the metric. Or give bound=, the largest norm of a row."
            raise ValueError(message("X_public", None, "public rows of X's columns", remedy))
        scaling = Scaling(self.bound, spread=self.bound)
        return synthetic_rows(None, 0.0, columns), scaling

    def _choose_metric(
        self, public: GLM, start: Array, label_bound: float | None
    ) -> tuple[Metric, float]:
        """Return the metric and C, which is in units of the usual length of a row's gradient."""
        metric = Metric(public.hessian(start), max(PRIVATE.damping, public.l2))
        mu = gaussian_mu(self.epsilon, self.delta)
        noise = metric.degrees_of_freedom / (mu**2 * self.n_nominal)
        units = PRIVATE.clip_units(noise, labelled=public.targets is not None)
        length = clipping(public, start, metric).length
        if not length:
            # Without labels half their bound stands for the usual residual.
            squares = metric.degrees_of_freedom if label_bound is None else metric.dim
            length = math.sqrt(squares) * (1.0 if label_bound is None else label_bound / 2)
        return metric, units * length

    def _with_synthetic_rows(self, ready: Prepared, target: Private) -> Prepared:
        """Buy second moments, and draw rows that have them: the proxy, the metric and the clip."""
        old, columns = ready.public, self.n_features_in_
        # All products, if noise leaves directions to be told that hold a share of all squares.
        largest = LARGEST_MOMENT["products"]
        # The first release is the count.
        edge = noise_edge(target.planned[1] * largest / target.size, columns)
        kind = "products" if edge <= PRIVATE.resolved else "means"
        found, noise = target.second_moments(LARGEST_MOMENT[kind], kind)
        rows = synthetic_rows(found, noise, columns)
        public = GLM(rows, None, old.family, l2=old.l2, intercept=self.fit_intercept)
        metric, clip = self._choose_metric(public, ready.start, ready.label_bound)
        target.adjust(metric=metric, clip=clip, matched=public)
        return ready._replace(public=public, metric=metric, clip=clip)

    def _check_bound(self, lengths: Array) -> None:
        """Warn of a bound that shortens most public rows."""
        if self.bound is not None and np.median(lengths) > self.bound:
            warnings.warn(
                f"bound={self.bound:g} is below the norm of {np.mean(lengths > self.bound):.0%} of "
                f"the public rows, whose median is {np.median(lengths):.3g}: they are shortened to "
                "it, and so are private ones and those that are predicted. Leave it out, or take "
                f"one near {np.quantile(lengths, 0.99):.3g}.",
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
        public = np.asarray(squares.mean(axis=0)).ravel()
        lacking = np.maximum(np.abs(private - public) - PRIVATE.clear * sd, 0.0)
        if not lacking.any():
            return ready.public
        hessian, width = ready.public.hessian(ready.start), family.outputs * len(public)
        curvature = np.diag(hessian)[:width].sum() - width * ready.public.l2
        usual = float(curvature) / (family.outputs * float(public.sum()))
        extra = PRIVATE.extra_curvature * usual * np.append(lacking, [0.0] * self.fit_intercept)
        extra = np.repeat(extra, family.outputs)
        target.adjust(metric=Metric(hessian + np.diag(extra), ready.metric.damping))
        around = Quadratic(np.diag(extra), b=-extra * ready.start)
        return MixedProxy([ready.public, around], [1.0, 1.0])

    # -- what differs between estimators ----------------------------------------------------------

    def _family(self, y_public: Any) -> tuple[Family, float | None]:
        """Return the family, and the bound on numeric labels."""
        raise NotImplementedError(f"{type(self).__name__} must define _family(y_public)")

    def _store(self, w: Array, ready: Prepared) -> None:
        """Note the coefficients in the user's units, and what is done to rows."""
        self.scaling_ = ready.scaling
        coef, constants = self._shape(w)
        self.coef_ = coef / ready.scaling.spread
        self.intercept_ = constants - (self.coef_ * ready.scaling.centre).sum(axis=-1)

    def _predictors(self, X: Any) -> Array:
        """Return the linear predictors of rows, which are cut as those of the fit were."""
        check_is_fitted(self, "coef_")
        X = self.scaling_.cut(inputs.validate(self, X).astype(np.float64))
        return np.asarray(X @ np.atleast_2d(self.coef_).T) + self.intercept_


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(LinearRegressor, PrivateGLM):
    """A regression on private rows; abstract."""

    label_bound: float | None = None

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
        The largest norm of a row; longer ones are shortened to it, for the fit and for predictions.
        Needed without public rows.
    alpha : float, optional
        Strength of the L2 penalty on the mean loss, for scaled columns. By default cross-validation
        picks one for the public loss alone: the private rows, as far as they are believed, take it
        back.
    scale : {"public"}, optional
        Cut the entries of each column at the public quantiles, take the public median off dense
        columns and divide by the public root mean square (the default). None leaves columns as they
        are. ``plan(...).scaling`` shows the numbers; coefficients are of the columns as given.
    moments : float, optional
        Share of the budget for second moments of the private rows, see ``plan``; a twentieth by
        default. They show columns that public rows lack. 0 asserts that public rows are of the
        private rows' population.
    fit_intercept : bool
        Whether a constant is fitted.
    budget : PrivacyBudget, optional
        What is charged, together with other fits; by default each fit has a budget of its own.
    name : str, optional
        A name by which a killed fit is resumed from the budget's file.
    data : str, optional
        What the private rows are called on the page that a privacy officer signs.

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
    scaling_ : Scaling
        What is done to rows before the fit, and for predictions.
    page_ : FitPage
        One page for a privacy officer: ``print(model.page_)``, or a dict of JSON values.
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
    epsilon, delta, n_nominal, bound, alpha, scale, moments, fit_intercept, budget, name, data
        As in :class:`PrivateLogisticRegression`.
    label_bound : float, optional
        Labels beyond ±label_bound are set to it; by default the largest public one.

    Attributes
    ----------
    coef_, intercept_ : array, float
        As in scikit-learn's ``Ridge``.
    privacy_, rows_, scaling_, page_, result_
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

    family = Linear()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegressor(PrivateRegressor):
    """Poisson regression with a log link on private rows; see :class:`PrivateLogisticRegression`.

    Parameters
    ----------
    epsilon, delta, n_nominal, bound, alpha, scale, moments, fit_intercept, budget, name, data
        As in :class:`PrivateLogisticRegression`.
    label_bound : float, optional
        Counts above it are set to it; by default the largest public one.

    Attributes
    ----------
    coef_, intercept_ : array, float
        As in scikit-learn's ``PoissonRegressor``.
    privacy_, rows_, scaling_, page_, result_
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

    family = Poisson()


# -- public arithmetic ----------------------------------------------------------------------------


def choose_strength(public: GLM) -> GLM:
    """Return the public loss with the L2 strength that cross-validation picks."""
    rows, strengths = public.design.rows, np.array(PRIVATE.strengths)
    parts = np.random.default_rng(0).permutation(rows) % max(2, min(5, rows))
    folds = [(np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in np.unique(parts)]
    _, trial = best_strength(public, strengths, folds)
    return public.with_l2(strengths[trial.place])
