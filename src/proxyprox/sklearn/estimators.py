"""Logistic, ridge, Poisson and Gamma regression that learn from few labels and many inputs."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from proxyprox._util.validation import message
from proxyprox.advice.choice import Choice
from proxyprox.problems.families import Gamma, Linear, Poisson
from proxyprox.result import Interval
from proxyprox.sklearn import fitting, inference, inputs
from proxyprox.sklearn.linear import LinearClassifier, LinearModel, LinearRegressor

Array = Any


@dataclass(kw_only=True, eq=False, repr=False)
class ProxyGLM(LinearModel, ABC):
    """A generalised linear model fitted to labelled rows with all inputs as proxy; abstract."""

    alpha: Any = "auto"
    cv: Any = None
    fit_intercept: bool = True
    random_state: Any = 0

    # -- fitting ----------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_proxy: Any = None, y_proxy: Any = None
    ) -> Self:
        """Fit the labelled rows, with the help of a teacher or other data if there are any.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
            Inputs.
        y : array of shape (n,)
            Labels; NaN marks a row without one, for classifiers ``unlabelled`` does.
        sample_weight : array of shape (n,), optional
            Weights of the labelled rows.
        X_proxy : array or sparse matrix of shape (N, p), or list of such, optional
            Inputs without labels; if both have column names, they must be X's in X's order.
            scikit-learn's cross-validation splits it like X if it has as
            many rows, and a Pipeline transforms it only if told to by ``transform_input``, which
            needs ``sklearn.set_config(enable_metadata_routing=True)``.
        y_proxy : array, optional
            A teacher's answers: for the rows of X and then those of X_proxy; or for those of
            X_proxy only, such as the labels of old, drifted or synthetic rows. The labels decide
            how far it is believed, and ``choice_`` tells. Rows that were made from X and y cannot
            be judged by them: they are recognised, warned of, and left out. For a list of tables
            in X_proxy a list of the answers on each: ``tables_`` tells what each was worth.

        Returns
        -------
        self
        """
        X, y, labelled = self._check(X, y)
        self._set_classes(y, labelled)
        settings, family = inputs.settings_of(self), self.family
        X_proxy, y_proxy, sizes = inputs.join_tables(self, X_proxy, y_proxy)
        plain = inputs.labelled_rows(X, y, sample_weight, labelled)
        rows = plain.weigh_classes(getattr(self, "class_weight", None), family)
        teacher, worth, made = None, None, list[str]()
        if y_proxy is not None:
            given = X, labelled, X_proxy, y_proxy, sizes
            teacher, worth, made = inference.read_teacher(family, rows, given, settings)
        if made:
            warnings.warn(
                f"X_proxy and y_proxy{', '.join(made)} are too like X and y for independent rows "
                "and seem to be made from them: they are left out. Fit a generator to one half of "
                "the labelled rows and pass the other half as X and y.",
                stacklevel=2,
            )
        found = fitting.learn(settings, family, rows, teacher)
        self._w, trial, self.alpha_, choice, self._rectifier, estimate = found
        self.n_labels_, self.cv_curve_ = int(rows.X.shape[0]), trial.curve
        choice = replace(choice, tables=worth.words) if worth else choice
        # As plain tuples, which every way of storing an estimator can store.
        self._rows, self._choice = (plain.X, plain.y, plain.weights), tuple(vars(choice).values())
        self.tables_ = worth and worth.shares
        self._estimate = None if estimate is None else tuple(estimate)
        self.power_ = 0.0 if estimate is None else estimate.power
        self.coef_, self.intercept_ = self._shape(self._w)
        return self

    def _unregularised(self) -> inference.Estimate:
        """Return the unregularised estimate; made when it is first asked for."""
        check_is_fitted(self)
        if self._estimate is None:
            y = self._rows[1]
            rows = inputs.Labelled(*self._rows, y, np.ones(len(y), dtype=bool))
            rows = rows.weigh_classes(getattr(self, "class_weight", None), self.family)
            loss = rows.loss(self.family, self.fit_intercept)
            self._estimate = tuple(inference.estimate_of(loss, self._w, None))
        return inference.Estimate(*self._estimate)

    @property
    def coef_std_(self) -> Array:
        """Standard errors of ``coef_debiased_``."""
        return self._shape(self._unregularised().std)[0]

    @property
    def intercept_std_(self) -> Any:
        """Standard errors of ``intercept_debiased_``."""
        return self._shape(self._unregularised().std)[1]

    @property
    def coef_debiased_(self) -> Array:
        """The unregularised estimate of the coefficients."""
        return self._shape(self._unregularised().w)[0]

    @property
    def intercept_debiased_(self) -> Any:
        """The unregularised estimate of the intercept."""
        return self._shape(self._unregularised().w)[1]

    @property
    def excess_(self) -> float:
        """By how much its loss lies above that of the best linear model, about."""
        return self._unregularised().excess

    @property
    def inference_note_(self) -> str:
        """Why standard errors are infinite, and of which columns."""
        estimate = self._unregularised()
        if not estimate.loose:
            return estimate.note
        names = getattr(self, "feature_names_in_", None)
        return inference.collinear_note(estimate.loose, self.n_features_in_, names)

    @property
    def _mark(self) -> Any:
        """The value of y that marks a row without a label."""
        return inputs.mark_of(getattr(self, "unlabelled", np.nan))

    def _check(self, X: Any, y: Any) -> tuple[Any, Array, Array]:
        """Return validated inputs and labels, and which rows have a label."""
        y, labelled = inputs.read_labels(y, self._mark)
        X, y = inputs.validate(self, X, y, y_numeric=is_regressor(self), reset=True)
        return X, y, np.ones(len(y), dtype=bool) if labelled is None else labelled

    @abstractmethod
    def _set_classes(self, y: Array, labelled: Array) -> None:
        """Note the classes of the labels; refuse or warn of what may have been meant otherwise."""

    # -- after fitting ----------------------------------------------------------------------

    @property
    def choice_(self) -> Choice:
        """Which way of using labels and teacher the held-out labels preferred, and by how much."""
        check_is_fitted(self)
        return Choice(*self._choice)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, or the share of the deviance that the model explains: R², D².

        Rows without a label are skipped.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        """
        if sample_weight is not None:
            sample_weight = inputs.check_weights(sample_weight, X)
        X, y, sample_weight = inputs.labelled_part(X, y, sample_weight, self._mark)
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Return intervals for the coefficients.

        They are drawn around ``coef_debiased_``, the unregularised (with a teacher: paired)
        estimate, because the fit itself is shrunk on purpose. If the labels do not determine a
        coefficient, as of columns that are sums of others, its interval is infinite. A warning and
        ``inference_note_`` name the columns.

        Parameters
        ----------
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            ``estimate``, ``low`` and ``high``, each in the shape of ``coef_``.
        """
        check_is_fitted(self)
        reach = inference.quantile(level, self.n_labels_) * self.coef_std_
        if note := self.inference_note_:
            warnings.warn(f"Intervals are infinite. {note}", stacklevel=2)
        centre = np.where(np.isfinite(reach), self.coef_debiased_, self.coef_)
        return Interval(centre, centre - reach, centre + reach)

    def mean_prediction(self, X: Any, level: float = 0.95) -> Interval:
        """Return the mean label over a population, with its interval.

        The mean prediction is rectified by the residuals of the labelled rows under fits that
        did not see them, so that it is right even where the model is not. The interval of a share
        or a mean count is never narrower than two wrong answers, or events, among the labelled rows
        would make it: labels that are all predicted right do not show how often others are not.

        Parameters
        ----------
        X : array or sparse matrix
            A sample of the population, usually the unlabelled rows.
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            Means: of the label for regressors, of the second class for two classes, of every
            class otherwise.
        """
        predicted = np.asarray(self.family.mean(self._predictors(X)))
        centre = predicted.mean(axis=0) + self._rectifier[:, 0]
        spread = np.hypot(self._rectifier[:, 1], predicted.std(axis=0) / np.sqrt(len(predicted)))
        reach = inference.quantile(level, self.n_labels_) * spread
        one = len(centre) == 1
        # The range of a mean label is that of the family's means.
        limits = self.family.mean(np.array([-np.inf, np.inf])) if one else (0.0, 1.0)
        ends = np.clip([centre, centre - reach, centre + reach], *limits)
        return Interval(*(ends[:, 0].tolist() if one else ends))


class ProxyRegressor(ProxyGLM, LinearRegressor):
    """A regression on labelled rows with all inputs as proxy; abstract.

    A subclass names its ``family``: what a label is, and what a prediction of it costs.
    """

    def _set_classes(self, y: Array, labelled: Array) -> None:
        if not labelled.any():
            raise ValueError("y must hold labels, got NaN in every row. Label some rows.")
        self.family.encode(y[labelled])


@dataclass(kw_only=True, eq=False, repr=False)
class ProxyLogisticRegression(ProxyGLM, LinearClassifier):
    r"""Logistic regression on few labels, with the help of a teacher, other data or more inputs.

    Fits that are pulled towards zero by an L2 term, and towards the model that imitates the
    teacher's answers, are weighed by cross-validation on the labelled rows and averaged.

    Parameters
    ----------
    alpha : float, sequence of float or "auto"
        Strength of the penalty ``alpha/2 ‖w‖²`` on the mean loss of labels alone; of several,
        cross-validation weighs them, or picks one of more than 250 labels. "auto" is a grid made
        from the data.
    cv : int, splitter or None
        How the labelled rows are split; None for three folds five times where labels are few,
        else five folds.
    fit_intercept : bool
        Whether a constant is fitted; it is never penalised.
    random_state : int, RandomState or None
        Randomness of the default split.
    unlabelled : int, str, None or "auto"
        The value of y that marks a row without a label, such as −1, or a string for text labels;
        None and NaN in an array of objects mark one, too. None: every value is a class. "auto": so
        it is, but −1 and the empty string, which may be meant as marks, are refused.
    class_weight : dict, "balanced" or None
        Weights of the classes, by which those of the rows are multiplied; "balanced" makes all
        classes count the same. :meth:`mean_prediction` still estimates the population's mean.

    Attributes
    ----------
    coef_, intercept_, classes_ : arrays
        As in scikit-learn's ``LogisticRegression``.
    choice_ : Choice
        Which way was preferred of labels alone, fine-tuned and mixed,
        with the weight θ of the labels' loss; printed, it says by how much and what that means.
    tables_ : array or None
        Of several tables in X_proxy with answers the share of each in the combination's curvature,
        0 of a table that is left out; ``choice_`` has it in words. None of one table.
    alpha_, power_ : float
        The strength that weighs most, and λ of the paired correction in the unregularised estimate:
        0 is the labels' alone, 1 prediction-powered inference (zero if ``inference_note_`` says
        that there are no standard errors to tune it by).
    cv_curve_ : array
        Mean held-out log-loss of each strength, or θ, of the way that was preferred.
    coef_std_, intercept_std_, coef_debiased_, intercept_debiased_ : arrays
        The unregularised estimate and its standard errors, see :meth:`confidence_interval`.
    inference_note_ : str
        Why standard errors are infinite, and of which columns; empty if none is.
    n_labels_ : int
        Labelled rows of the fit.

    Notes
    -----
    With metadata routing ask for what is to be passed through a Pipeline or a search:
    ``est.set_fit_request(X_proxy=True, y_proxy=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, n_features=10, random_state=0)
    >>> y[50:] = -1                     # fifty labels, 550 rows without
    >>> model = ProxyLogisticRegression(unlabelled=-1).fit(X, y)
    >>> model.n_labels_, model.predict_proba(X[:2]).shape
    (50, (2, 2))
    """

    unlabelled: Any = "auto"
    class_weight: Any = None

    # -- internals --------------------------------------------------------------------------

    def _set_classes(self, y: Array, labelled: Array) -> None:
        check_classification_targets(y)
        classes = np.unique(y[labelled])
        for mark in (-1, ""):
            if self.unlabelled == inputs.ASK and mark in classes.tolist():
                rows = f"{int((y == mark).sum())} of {len(y)} rows"
                remedy = f"Set unlabelled={mark!r} if they have no label, None if it is a class."
                allowed = f"{mark!r} or None if y is {mark!r} in {rows}"
                raise ValueError(message("unlabelled", inputs.ASK, allowed, remedy))
        if len(classes) < 2:
            got = f"one class, {classes.tolist()[0]!r}" if len(classes) else "no label"
            remedy = "Label rows of another class."
            raise ValueError(f"y must hold labels of two classes at least, got {got}. {remedy}")
        self.classes_ = classes


class ProxyPoissonRegressor(ProxyRegressor):
    """Regression of counts, with a logarithmic link, helped by rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. NaN in y marks a row without a label; −1 is a value,
    and as a count it is refused.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.poisson(np.exp(X[:80] @ [0.5, -0.5, 0.0]))
    >>> model = ProxyPoissonRegressor().fit(X[:80], y, X_proxy=X[80:])
    >>> bool((model.predict(X) > 0).all())
    True
    """

    family = Poisson()


class ProxyGammaRegressor(ProxyRegressor):
    """Regression of amounts above zero, with a logarithmic link, helped by rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. NaN in y marks a row without a label. The link is not
    the canonical one: rows without labels help through the expected curvature.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.gamma(2.0, np.exp(X[:80] @ [0.5, -0.5, 0.0]) / 2)
    >>> model = ProxyGammaRegressor().fit(X[:80], y, X_proxy=X[80:])
    >>> bool((model.predict(X) > 0).all())
    True
    """

    family = Gamma()


class ProxyRidge(ProxyRegressor):
    """Linear regression on few labels, with the help of a teacher, other data or more inputs.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. NaN in y marks a row without a label; −1 is a value
    like any other.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = X[:40] @ np.arange(5.0) + rng.normal(size=40)
    >>> model = ProxyRidge().fit(X[:40], y, X_proxy=X[40:])
    >>> model.coef_.shape, model.confidence_interval().low.shape
    ((5,), (5,))
    """

    family = Linear()
