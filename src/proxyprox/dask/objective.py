"""Generalised linear models of a table in partitions: one pass over the cluster, one answer.

The loss of some rows is a :class:`proxyprox.GLM`. A pass asks those of all blocks of rows, on the
workers, and averages their answers by weight.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, digest
from proxyprox._util.text import list_names
from proxyprox._util.validation import Words, message
from proxyprox.dask import tables
from proxyprox.dask.tables import CLUSTER, Engine, Pass
from proxyprox.problems import families
from proxyprox.problems.families import FAMILIES, Family
from proxyprox.problems.glm import GLM, Design, Encoded, LinearLoss
from proxyprox.problems.protocols import Batch, Facts, Work
from proxyprox.sklearn.inputs import stack_rows

Array = Any

# -- what the workers do ------------------------------------------------------------------------


def ask_partition(number: int, part: Any, job: Any) -> list[Any]:
    """Return the weight of a partition's rows, and the answers of its blocks' losses times it."""
    transformer, intercept, family, questions = job
    totals: list[Any] = []
    for X, y, s in tables.read_blocks(*tables.open_partition(part), transformer):
        weight = float(len(y) if s is None else s.sum())
        if not weight:
            continue
        design = Design(X, intercept=intercept, checked=True)
        loss = GLM(design, Encoded(family.encode(y)), family, sample_weight=s)
        with np.errstate(over="ignore", invalid="ignore"):
            answers = [getattr(loss, name)(*arguments) for name, *arguments in questions]
        flat = chain.from_iterable(a if isinstance(a, tuple) else (a,) for a in answers)
        totals = add_answers([totals, [weight, *(weight * answer for answer in flat)]])
    return totals


def add_answers(parts: list[list[Any]]) -> list[Any]:
    """Return the sums, in the order of the parts; those without rows are empty."""
    return [sum(each[1:], start=each[0]) for each in zip(*filter(None, parts), strict=True)]


class Sample(NamedTuple):
    """Rows drawn by their keys, in the order of the table."""

    keys: Array
    X: Any
    y: Array
    weights: Array


def merge_samples(samples: Sequence[Sample], size: int) -> list[Sample]:
    """Return the rows of the smallest keys of samples that follow each other, in a list if any."""
    if not samples:
        return []
    _, X, *_ = parts = list(zip(*samples, strict=True))
    key, label, weight = (np.concatenate(parts[i]) for i in (0, 2, 3))
    stacked = stack_rows(*X)
    kept = np.sort(np.argsort(key, kind="stable")[:size])
    return [Sample(key[kept], stacked[kept], label[kept], weight[kept])]


class Draw(NamedTuple):
    """How many rows to draw by keys of a seed; no row of a key above the limit is among them."""

    size: int = 0
    seed: int = 0
    limit: float = math.inf

    def keys(self, number: int, rows: int) -> Array:
        """Return the keys of a partition's rows; those that cannot be drawn are infinite."""
        keys = np.random.default_rng([self.seed, number]).random(rows)
        limit = np.partition(keys, self.size)[self.size] if rows > self.size else self.limit
        return np.where(keys < min(limit, self.limit), keys, math.inf)


class Size(NamedTuple):
    """Rows of a partition, their weight, entries, nanoseconds of a Gram matrix, and a hash."""

    rows: int = 0
    weight: float = 0.0
    entries: int = 0
    gram: float = 0.0
    mark: int = 0


class Look(NamedTuple):
    """What a first pass finds: of each partition its size, what is wrong and in which partition."""

    parts: tuple[Size, ...]
    columns: int
    faults: tuple[tuple[str, int], ...]
    classes: tuple[Any, ...]
    samples: list[Sample]


def look_at_partition(number: int, part: Any, job: Any) -> Look:
    """Return what one partition holds: its size, its faults, its classes and its sampled rows."""
    transformer, columns, family, draw = job
    size, width = Size(), 0
    faults, classes, samples = dict[str, None](), dict[Any, None](), list[Sample]()
    data = tables.open_partition(part)
    if fault := tables.column_fault(*data, columns):
        return Look((Size(),), 0, ((fault, number),), (), [])
    keys = draw.keys(number, data[0].shape[0]) if draw.size else np.zeros(0)
    for X, y, s in tables.read_blocks(*data, transformer):
        design, width = Design(X, checked=True), X.shape[1]
        weights = np.ones(len(y)) if s is None else s.astype(np.float64)
        inputs = (X.data, X.indices, X.indptr) if design.sparse else (np.ascontiguousarray(X.T),)
        mark = size.mark
        for array in (*inputs, pandas.util.hash_array(y), weights):
            mark = zlib.crc32(array, mark)
        size = Size(
            size.rows + len(y), size.weight + float(weights.sum()), size.entries + inputs[0].size,
            size.gram + min(design.gram_work), mark,
        )  # fmt: skip
        names = [name for name, _ in columns] if transformer is None else range(width)
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = np.flatnonzero(~np.isfinite(np.ravel(X.sum(axis=0))))
        faults |= {f"column {names[j]!r} NaN or infinite": None for j in gaps}
        faults |= dict.fromkeys(_label_faults(y, family, classes))
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            faults["weights that are negative or not finite"] = None
        key, keys = np.split(keys, [len(y)])
        kept = np.flatnonzero(key < math.inf)
        samples.append(Sample(key[kept], X[kept], y[kept], weights[kept]))
    found = tuple((fault, number) for fault in faults)
    drawn, met = merge_samples(samples, draw.size), tuple(classes)[: CLUSTER.rows]
    return Look((size,), width, found, met, drawn)


def merge_looks(looks: list[Look], size: int) -> Look:
    """Return what several looks found together."""
    parts, columns, faults, classes, samples = zip(*looks, strict=True)
    joined, wrong, met = (tuple(chain.from_iterable(each)) for each in (parts, faults, classes))
    known, drawn = tuple(dict.fromkeys(met))[: CLUSTER.rows], list(chain.from_iterable(samples))
    return Look(joined, max(columns), wrong, known, merge_samples(drawn, size))


def _label_faults(y: Array, family: Any, classes: dict[Any, None]) -> list[str]:
    """Return what is wrong with labels, and note the classes met."""
    if family.classifier:
        codes, values = pandas.factorize(y)
        classes |= dict.fromkeys(values[: CLUSTER.rows].tolist())
        return ["labels missing"] if (codes < 0).any() else []
    t = np.asarray(pandas.to_numeric(y, errors="coerce"), dtype=np.float64)
    valid = np.isfinite(t) & family().valid(t)
    return [] if valid.all() else [f"labels other than {family.labels}"]


def some_rows(number: int, part: Any, job: int) -> Any:
    """Return at most that many rows of a partition's inputs as a DataFrame, drawn at random."""
    frame = tables.as_frame(tables.open_partition(part)[0])
    return frame.iloc[np.random.default_rng([0, number]).permutation(len(frame))[:job]]


# -- the design and the loss --------------------------------------------------------------------


class PartitionedDesign:
    """The rows of a table in partitions, in place of a matrix: every answer is a pass over them.

    Parameters
    ----------
    table : Table
        Inputs, labels and weights.
    kind : type of Family
        By which labels are checked.
    intercept : bool
        Whether a constant column is appended.
    engine : Engine
        What runs the passes.
    """

    def __init__(self, table: tables.Table, kind: Any, intercept: bool, engine: Engine) -> None:
        if not table.parts:
            raise ValueError(message("X", Words("no row group"), "a table with rows"))
        self.table, self.kind, self.engine = table, kind, engine
        self.intercept = check.flag("intercept", intercept)
        self.seen: Look | None = None

    def look(self, draw: Draw = Draw()) -> Look:  # noqa: B008
        """Return what the first pass found, and a sample if one is drawn in the same pass."""
        if self.seen is not None and not draw.size:
            return self.seen
        job = self._transformer, self.table.columns, self.kind, draw
        purpose = "sample" if draw.size else "first look"
        merge = partial(merge_looks, size=draw.size)
        seen: Look = self.engine.run(purpose, self.table, look_at_partition, job, merge)
        if seen.faults:
            where: dict[str, list[str]] = {}
            for fault, number in seen.faults:
                where.setdefault(fault, []).append(self.table.names[number])
            listed = [f"{what} in {list_names(names)}" for what, names in where.items()]
            allowed = "of the same finite columns, labels and weights in every partition"
            remedy = "Drop or repair those rows; a transformer may impute inputs."
            raise ValueError(f"The table must be {allowed}, but has {'; '.join(listed)}. {remedy}")
        if not any(part.weight > 0 for part in seen.parts):
            got = Words(f"{sum(part.rows for part in seen.parts)} rows of weight 0")
            raise ValueError(message("X", got, "a table with rows, not all of weight zero"))
        self.seen = seen._replace(samples=[])
        return seen

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.look().parts)

    @property
    def width(self) -> int:
        """Number of columns, the constant included."""
        return self.look().columns + int(self.intercept)

    def asarray(self, array: Any) -> Array:
        """Return an array of float64, as all vectors here are."""
        return np.asarray(array, dtype=np.float64)

    def mean(self, purpose: str, family: Family, questions: Any) -> list[Any]:
        """Return the answers of the losses of all partitions, averaged by weight."""
        job = self._transformer, self.intercept, family, questions
        weight, *sums = self.engine.run(purpose, self.table, ask_partition, job, add_answers)
        return [total / weight for total in sums]

    def sample(self, n: int, seed: int) -> Sample:
        """Return n rows, drawn uniformly without replacement in one pass."""
        rows = self.table.rows if self.seen is None else self.rows
        # Of known rows ten standard deviations more than needed have keys below a limit.
        limit = (n + 10 * math.sqrt(n) + 100) / rows if rows else math.inf
        samples = self.look(Draw(n, seed, limit)).samples
        if self.rows < n:
            raise ValueError(message("n", n, f"at most the number of rows, {self.rows}"))
        return samples[0]

    @cached_property
    def _transformer(self) -> Any:
        """The transformer, fitted."""
        transformer = self.table.transformer
        try:
            if transformer is not None:
                check_is_fitted(transformer)
        except NotFittedError:
            count = math.ceil(CLUSTER.rows / len(self.table.parts))
            purpose = "fit of transformer"
            rows = self.engine.run(purpose, self.table, some_rows, count, pandas.concat)
            transformer.fit(rows)
        return transformer


class PartitionedGLM(LinearLoss):
    r"""Mean loss of a generalised linear model over a table in partitions, plus ``l2/2 ‖w‖²``.

    Usually built by :func:`logistic_regression` and its like, which have the core's names. It is
    the loss of :class:`proxyprox.GLM`, computed in one pass over the partitions; vectors are
    float64, and sums are, whatever the table holds.

    Parameters
    ----------
    X : Dask array, Dask DataFrame or what :func:`read_parquet` returns
        Inputs; blocks of arrays may be scipy's CSR matrices.
    y : Dask array or Series, optional
        Labels, divided as X is; left out for Parquet.
    family : type of Family
        Such as ``proxyprox.problems.families.Logistic``.
    classes : tuple, optional
        The classes of a classifier; by default those that the first pass meets.
    l2 : float
        Strength of the L2 term.
    intercept : bool
        Whether a constant is fitted; it is never regularised.
    sample_weight : Dask array or Series, optional
        Weights ≥ 0 of the rows.
    transformer : scikit-learn transformer, optional
        What makes numbers of the inputs; see :func:`read_parquet`.
    client : distributed.Client, optional
        Where to compute; by default the current client, and without one Dask's local scheduler.
    retries : int
        How often a cluster repeats a task that raised.

    Attributes
    ----------
    design : PartitionedDesign
        The rows; ``design.rows`` is their number.
    passes : list of Pass
        The purpose and the seconds of each pass so far.

    Notes
    -----
    The first pass, which may draw the sample, checks the data: all partitions and columns with gaps
    are named in one error.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from proxyprox.dask import PartitionedGLM
    >>> from proxyprox.problems.families import Poisson
    >>> X, y = da.ones((4, 1), chunks=(2, 1)), da.from_array(np.array([0, 3, 0, 3]), chunks=2)
    >>> PartitionedGLM(X, y, Poisson).gradient(np.zeros(1))
    array([-0.5])
    """

    design: PartitionedDesign
    batch_size = None

    def __init__(
        self,
        X: Any,
        y: Any = None,
        family: Any = None,
        *,
        classes: tuple[Any, ...] | None = None,
        l2: float = 0.0,
        intercept: bool = False,
        sample_weight: Any = None,
        transformer: Any = None,
        client: Any = None,
        retries: int = 2,
    ) -> None:
        if not (isinstance(family, type) and issubclass(family, Family)):
            raise TypeError(message("family", family, "a class of families, such as Logistic"))
        engine = Engine(client, retries)
        table = tables.as_table(X, y, sample_weight, transformer)
        if y is None and not isinstance(X, tables.Table):
            raise TypeError(message("y", y, "given: a Dask array or Series, divided as X is"))
        self.design = PartitionedDesign(table, family, intercept, engine)
        self.l2 = check.nonnegative("l2", l2)
        self._classes = classes
        # The last point with what a pass found there.
        self._known: tuple[Vector, float, Vector] | None = None

    @property
    def passes(self) -> list[Pass]:
        """The passes so far, as they were timed."""
        return self.design.engine.passes

    @cached_property
    def family(self) -> Family:  # type: ignore[override]
        """The family, with its classes."""
        kind = self.design.kind
        if not kind.classifier:
            return kind()  # type: ignore[no-any-return]
        met = np.unique(families.label_array(np.fromiter(self.design.look().classes, object)))
        family: Family = kind(
            families.check_classes(self._classes, met, binary=kind is families.Logistic)
        )
        family.encode(met)
        return family

    @property
    def work(self) -> Work:
        """About how long a gradient and a Hessian take, on one core."""
        size = Size(*map(sum, zip(*self.design.look().parts, strict=True)))
        outputs = self.family.outputs
        gradient = CLUSTER.reading * size.entries
        gradient += outputs * (2.0 * size.entries + 15.0 * size.rows)
        hessian = size.gram * outputs * (outputs + 1) / 2
        return Work(gradient, hessian, size.rows, self.design.width)

    @property
    def gradient_source(self) -> str:
        """What a pass costs."""
        if self.design.seen is None:
            return "no pass was made"
        times, count = [each.seconds for each in self.passes], len(self.design.table.parts)
        size = f"{count} partitions, {self.design.rows:,} rows, {np.median(times):.3g} s each"
        return f"{len(times)} passes ({size})"

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        return Facts(
            gradient_source=self.gradient_source, work=self.work, start=self.zeros(),
            settings={"l2": self.l2}, subsample=self.sample_rows,
        )  # fmt: skip

    def value(self, w: Vector) -> float:
        """Return L(w)."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return ∇L(w)."""
        return self.value_and_gradient(w)[1]

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return L(w) and ∇L(w) of one pass."""
        if self._known is None or not np.array_equal(self._known[0], w):
            w = self._point(w).copy()
            question = "value_and_gradient", w
            value, gradient = self.design.mean("gradient", self.family, [question])
            value += float(w @ (self._strengths * w)) / 2
            self._known = w, value, gradient + self.ridge(w)
        return self._known[1], self._known[2].copy()

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²L(w) v in one pass."""
        question = "hvp", self._point(w), self._point(v, "v")
        (product,) = self.design.mean("Hessian product", self.family, [question])
        return product + self.ridge(v)

    def hessian(self, w: Vector) -> Matrix:
        """Return the d × d matrix ∇²L(w), of one pass."""
        question = "hessian", self._point(w)
        (matrix,) = self.design.mean("Hessian", self.family, [question])
        return matrix + np.diag(self._strengths)

    def _point(self, w: Vector, name: str = "w") -> Vector:
        check.require_point(name, w, self.dim)
        return np.asarray(w, dtype=np.float64)

    @property
    def strong_convexity(self) -> float:
        """A bound μ on the Hessian's smallest eigenvalue, over all w."""
        return 0.0 if self.design.intercept else self.l2

    def fingerprint(self) -> str:
        """Return a text that only losses of the same data, family and settings share."""
        design, classes = self.design, getattr(self.family, "classes", ())
        known = [(part.rows, part.mark) for part in design.look().parts]
        return digest(design.kind.__name__, classes, self.l2, design.intercept, known)

    def sample(self, rng: np.random.Generator) -> Batch:
        """Return None: every gradient is of all rows."""
        return None

    def samples(self, batch: Batch) -> int:
        """Return the number of rows (labels)."""
        return self.design.rows

    def sample_rows(self, n: int, *, seed: int = 0) -> GLM:
        """Return the same loss on ``n`` rows in memory, drawn uniformly without replacement.

        Every row has a random key from the seed and the number of its partition; the n smallest
        keys are drawn, in one pass, whichever worker looks at them. As the first call on a target
        it is the first look at the data as well.

        Parameters
        ----------
        n : int
            Rows to draw.
        seed : int
            The same seed draws the same rows.

        Returns
        -------
        GLM
            A proxy of float64 rows, with their weights.
        """
        n, seed = check.whole("n", n), check.whole("seed", seed, 0)
        _, X, y, weights = self.design.sample(n, seed)
        same = None if (weights == weights[0]).all() else weights
        design, codes = Design(X, intercept=self.design.intercept), Encoded(self.family.encode(y))
        return GLM(design, codes, self.family, l2=self.l2, sample_weight=same)


def _loss_of(family: type[Family]) -> Callable[..., PartitionedGLM]:
    """Return the function that makes the loss of a family over partitions."""

    def regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
        return PartitionedGLM(X, y, family, **options)

    regression.__name__ = regression.__qualname__ = f"{family.name}_regression"
    regression.__doc__ = (
        f"Return the loss of :func:`proxyprox.{regression.__name__}` over partitions.\n\n"
        "Options as in :class:`PartitionedGLM`."
    )
    return regression


linear_regression, logistic_regression, softmax_regression, poisson_regression, gamma_regression = (
    map(_loss_of, FAMILIES.values())
)
