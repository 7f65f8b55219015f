"""Generalised linear models of a table in partitions: one pass over the cluster, one answer.

A pass sums over the partitions on the workers, in a tree in the order of the partitions, so that
the sum does not depend on who computed what, and hands one vector to the driver. The engine's
scheduler runs it: a failed task is repeated, those of a lost worker are run elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector
from proxyprox._util.digests import digest
from proxyprox._util.extras import require
from proxyprox._util.validation import Words, message
from proxyprox.dask.tables import LISTED, PartitionError, as_table
from proxyprox.problems import families
from proxyprox.problems.families import Family
from proxyprox.problems.glm import GLM, Design, Encoded, as_targets
from proxyprox.problems.protocols import Batch, Work

Array = Any

# Results that one task adds up.
FAN_IN = 8
# How often the engine repeats a task that raised.
RETRIES = 2
# Nanoseconds of reading one number from a file, about.
READING = 3.0
# Rows that a transformer is fitted on.
FIT_ROWS = 100_000
# The share of a worker's memory that samples may take while they are merged.
SHARE = 0.5
# More classes than anybody has: labels that are no classes at all.
MOST_CLASSES = 1000


# -- what the workers do ------------------------------------------------------------------------


class Job(NamedTuple):
    """What a pass is to compute, the same for all partitions."""

    transformer: Any
    family: Family
    intercept: bool
    w: Vector
    direction: Vector | None = None
    hessian: bool = False


class Sums(NamedTuple):
    """Weighted sums over rows; of the gradient's or, along a direction, the Hessian's product."""

    weight: float
    loss: float
    gradient: Any
    hessian: Any


def sum_partition(number: int, part: Any, data: tuple[Any, ...], job: Job) -> Sums:
    """Return the sums over the rows of one partition."""
    family, total = job.family, Sums(0.0, 0.0, 0.0, 0.0)
    shape = (-1,) if family.outputs == 1 else (-1, family.outputs)
    for X, y, s in _read(part, data, job.transformer):
        design = Design(X, intercept=job.intercept, checked=True)
        targets = as_targets(design, family, _encode(family, y))
        weights = 1.0 if s is None else np.asarray(s, dtype=np.float64)
        columns = weights if family.outputs == 1 or s is None else weights[:, None]
        loss, hessian = 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            z = design.predict(job.w.reshape(shape))
            if job.direction is None:
                loss = float(np.sum(weights * family.loss(z, targets)))
                pulled = design.pull(columns * family.slope(z, targets))
            else:
                along = design.predict(job.direction.reshape(shape))
                pulled = design.pull(columns * _bend(family, z, targets, along))
            if job.hessian:
                hessian = _gram(design, family, z, targets, weights)
        weight = float(len(y) if s is None else weights.sum())
        total = add_sums([total, Sums(weight, loss, np.ravel(pulled), hessian)])
    return total


def add_sums(parts: list[Sums]) -> Sums:
    """Return the sum, in the order of the parts."""
    return Sums(*(sum(each[1:], start=each[0]) for each in zip(*parts, strict=True)))


def _read(part: Any, data: tuple[Any, ...], transformer: Any) -> Any:
    return (part.holding(*data) if data else part).blocks(transformer)


def _encode(family: Family, y: Array) -> Array:
    """Return labels as targets; two classes that are numbers are told apart without sorting."""
    if isinstance(family, families.Logistic) and y.dtype.kind in "biuf":
        negative, positive = (y == each for each in family.classes)
        if (negative | positive).all():
            return positive
    return family.encode(y)


def _bend(family: Family, z: Array, targets: Array, along: Array) -> Array:
    """Return each row's curvature times its predictor along a direction."""
    if family.outputs == 1:
        return family.curvature(z, targets) * along
    p = family.mean(z)
    return p * (along - np.sum(p * along, axis=1, keepdims=True))


def _gram(design: Design, family: Family, z: Array, targets: Array, weights: Any) -> Matrix:
    if family.outputs == 1:
        return design.gram(weights * family.curvature(z, targets))
    return design.softmax_gram(family.mean(z), np.broadcast_to(weights, len(z)))


class Sample(NamedTuple):
    """The rows of the smallest keys, in their order."""

    keys: Array
    X: Any
    y: Array
    weights: Array | None


class Scan(NamedTuple):
    """What a first pass finds, partition by partition, and the sample if one is drawn."""

    rows: tuple[int, ...]
    weights: tuple[float, ...]
    marks: tuple[int, ...]
    faults: tuple[tuple[str, str, str], ...]
    classes: frozenset[Any]
    width: int
    entries: float
    gram: float
    sample: Sample | None


class ScanJob(NamedTuple):
    """What a first pass looks for: ``limit`` is a key above which no row is in the sample."""

    transformer: Any
    family: Any
    classes: Any
    intercept: bool
    names: Any
    size: int = 0
    seed: int = 0
    limit: float = math.inf


def scan_partition(number: int, part: Any, data: tuple[Any, ...], job: ScanJob) -> Scan:
    """Return what one partition holds: its size, its faults, its classes and its sampled rows."""
    rows, weight, mark, entries, gram, width = 0, 0.0, 0, 0.0, 0.0, 0
    faults: dict[str, str] = {}
    classes: set[Any] = set()
    samples: list[Sample] = []
    keys, hashes = (np.random.default_rng([seed, number]) for seed in (job.seed, 0))
    limit, kept = job.limit, 0
    try:
        for X, y, s in _read(part, data, job.transformer):
            design = Design(X, intercept=job.intercept, checked=True)
            rows, width = rows + len(y), design.columns
            entries += X.nnz if design.sparse else X.size
            gram += min(design.gram_work)
            _note_gaps(X, job.names, faults)
            t = _check_labels(y, job, faults, classes)
            weights = np.ones(len(y)) if s is None else np.asarray(s, dtype=np.float64)
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                faults["the weights"] = "negative or not finite"
            weight += float(weights.sum())
            # Exact arithmetic on the bits: the same on every machine.
            factors = hashes.integers(2**63, size=len(y), dtype=np.uint64) * np.uint64(2) + 1
            mark = (mark + _hash(X, t, weights, factors)) % 2**64
            if not job.size:
                continue
            key = keys.random(len(y))
            rows_kept = np.flatnonzero(key < limit)
            s = None if s is None else weights[rows_kept]
            samples.append(Sample(key[rows_kept], X[rows_kept], y[rows_kept], s))
            kept += len(rows_kept)
            if kept > 2 * job.size:
                samples = [merge_samples(samples, job.size)]
                kept, limit = job.size, samples[0].keys[-1]
    except PartitionError as error:
        faults["the partition"] = str(error)
    found = tuple((name, part.name, what) for name, what in faults.items())
    sample = merge_samples(samples, job.size) if samples else None
    return Scan(
        (rows,), (weight,), (mark,), found, frozenset(classes), width, entries, gram, sample
    )


def _note_gaps(X: Any, names: Any, faults: dict[str, str]) -> None:
    values = X.data if scipy.sparse.issparse(X) else X
    if not np.isfinite(values.sum()):
        finite = np.isfinite(values)
        places = X.indices[~finite] if scipy.sparse.issparse(X) else np.nonzero(~finite)[1]
        for j in np.unique(places):
            name = names[j] if names is not None and len(names) == X.shape[1] else j
            faults[f"column {name!r}"] = "NaN or infinite"


def _check_labels(y: Array, job: ScanJob, faults: dict[str, str], classes: set[Any]) -> Array:
    """Note labels that are none, and the classes met; return numbers to hash."""
    if job.family.classifier:
        if y.dtype.kind == "O":
            missing = np.array([each is None or each != each for each in y.tolist()], dtype=bool)
        else:
            missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)
        values, codes = np.unique(
            y[~missing].astype(str if y.dtype.kind == "O" else y.dtype), return_inverse=True
        )
        if len(classes) < MOST_CLASSES:
            classes.update(values.tolist())
        if missing.any():
            faults["the labels"] = "missing"
        place = np.zeros(len(y))
        place[~missing] = codes
        return place
    if y.dtype.kind not in "biuf":
        faults["the labels"] = f"of dtype {y.dtype}"
        return np.zeros(len(y))
    t = y.astype(np.float64)
    valid = np.isfinite(t)
    valid[valid] = job.family().valid(t[valid])
    if not valid.all():
        faults["the labels"] = f"not {job.family.labels}"
    return t


@np.errstate(over="ignore")
def _hash(X: Any, t: Array, weights: Array, factors: Array) -> int:
    bits = [np.ascontiguousarray(each, dtype=np.float64).view(np.uint64) for each in (t, weights)]
    total = bits[0] @ factors + (bits[1] @ factors) * np.uint64(3)
    if scipy.sparse.issparse(X):
        row = np.repeat(factors, np.diff(X.indptr))
        return int(total + (X.data.view(np.uint64) * (2 * X.indices.astype(np.uint64) + 1)) @ row)
    columns = np.einsum("ji,i->j", np.asarray(X.T, order="C").view(np.uint64), factors)
    return int(total + columns @ (2 * np.arange(len(columns), dtype=np.uint64) + 1))


def merge_samples(samples: list[Sample], size: int) -> Sample:
    """Return the rows of the smallest keys of several samples."""
    keys = np.concatenate([each.keys for each in samples])
    order = np.argsort(keys, kind="stable")[:size]
    sparse = any(scipy.sparse.issparse(each.X) for each in samples)
    X = [each.X for each in samples]
    stacked = scipy.sparse.vstack(X, format="csr") if sparse else np.concatenate(X)
    y = np.concatenate([each.y for each in samples])[order]
    s = None
    if samples[0].weights is not None:
        s = np.concatenate([each.weights for each in samples])[order]
    return Sample(keys[order], stacked[order], y, s)


def merge_scans(parts: list[Scan], size: int) -> Scan:
    """Return what several scans found together."""
    columns = list(zip(*parts, strict=True))
    samples = [each for each in columns[8] if each is not None]
    return Scan(
        *(sum(each, start=()) for each in columns[:4]),
        frozenset().union(*columns[4]), max(columns[5]), sum(columns[6]), sum(columns[7]),
        merge_samples(samples, size) if samples else None,
    )  # fmt: skip


def frame_of_partition(number: int, part: Any, data: tuple[Any, ...], share: float) -> Any:
    """Return a share of a partition's inputs as they are, drawn at random."""
    frame = (part.holding(*data) if data else part).frame()
    chosen = np.flatnonzero(np.random.default_rng([0, number]).random(len(frame)) < share)
    return frame.iloc[chosen] if hasattr(frame, "iloc") else frame[chosen]


def concatenate_frames(parts: list[Any]) -> Any:
    """Return inputs below each other."""
    if hasattr(parts[0], "iloc"):
        pandas = require("pandas", extra="dask", purpose="transforming tables")
        return pandas.concat(parts, ignore_index=True)
    return np.concatenate(parts)


# -- the engine ---------------------------------------------------------------------------------


class Pass(NamedTuple):
    """One pass over partitions, as it was timed."""

    purpose: str
    partitions: int
    seconds: float


class Engine:
    """Dask's scheduler: the client given or current when it was made, or the local one."""

    def __init__(self, client: Any, retries: int, progress: bool) -> None:
        self.dask = require("dask", extra="dask", purpose="proxyprox.dask")
        named = str(self.dask.config.get("scheduler", "") or "")
        if client is None and named.endswith("distributed"):
            client = require("distributed", extra="dask", purpose="a cluster").default_client()
        self.client = client
        self.retries = check.whole("retries", retries, 0)
        self.progress = check.flag("progress", progress)
        self.passes: list[Pass] = []

    def run(
        self, purpose: str, table: Any, chosen: Any, task: Callable[..., Any], job: Any, merge: Any
    ) -> Any:
        """Return the merged results of a task for all chosen partitions, or None for none."""
        delayed, begun = self.dask.delayed, time.perf_counter()
        shared = delayed(job, pure=False, traverse=False)
        task, merge = (delayed(each, pure=False, traverse=False) for each in (task, merge))
        level = [task(i, table.parts[i], table.delayed[i], shared) for i in chosen]
        while len(level) > 1:
            level = [merge(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        result = self._compute(level[0])
        self.passes.append(Pass(purpose, len(chosen), time.perf_counter() - begun))
        return result

    def _compute(self, value: Any) -> Any:
        if self.client is None:
            diagnostics = require("dask.diagnostics", extra="dask", purpose="progress bars")
            bar = diagnostics.ProgressBar() if self.progress else contextlib.nullcontext()
            # The scheduler's tasks are the threads.
            with bar, threadpool_limits(1, "blas"):
                return value.compute()
        distributed = require("distributed", extra="dask", purpose="a cluster")
        if self.client.status != "running":
            raise RuntimeError(self._closed())
        future = self.client.compute(value, retries=self.retries)
        try:
            if self.progress:
                distributed.progress(future, notebook=False)
            return future.result()
        except distributed.CancelledError as error:
            raise RuntimeError(self._closed()) from error
        finally:
            future.release()

    def _closed(self) -> str:
        remedy = "Open a Client and build the target again; a checkpointed run resumes."
        return message("client", Words(self.client.status), "running", remedy)

    def memory(self) -> float:
        """Return the bytes that the smallest worker may use; infinite where no limit is known."""
        if self.client is None:
            return math.inf
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return min((each["memory_limit"] or math.inf for each in workers), default=math.inf)


# -- the loss -----------------------------------------------------------------------------------


class PartitionedGLM:
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
    partitions_per_batch : int, optional
        Partitions drawn for each stochastic gradient, in proportion to their weights. None: all.
    newton : bool, optional
        Whether a pass returns the Hessian with the gradient, which makes the default method
        Newton's. By default it does where that costs less than reading the table.
    client : distributed.Client, optional
        Where to compute; by default the current client, and without one Dask's local scheduler.
    retries : int
        How often a cluster repeats a task that raised.
    progress : bool
        Show the progress of every pass.

    Attributes
    ----------
    passes : list of Pass
        The purpose, the number of partitions and the seconds of each pass so far.

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

    repeatable = True

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
        partitions_per_batch: int | None = None,
        newton: bool | None = None,
        client: Any = None,
        retries: int = RETRIES,
        progress: bool = False,
    ) -> None:
        if not (isinstance(family, type) and issubclass(family, Family)):
            raise TypeError(message("family", family, "a class of families, such as Logistic"))
        self.engine = Engine(client, retries, progress)
        self.table = as_table(X, y, sample_weight, transformer)
        self.l2 = check.nonnegative("l2", l2)
        self.intercept = check.flag("intercept", intercept)
        self.newton = None if newton is None else check.flag("newton", newton)
        if partitions_per_batch is not None:
            check.whole("partitions_per_batch", partitions_per_batch)
        self.partitions_per_batch = partitions_per_batch
        self._kind, self._classes = family, classes
        self._scan: Scan | None = None
        # The last point with what a pass found there.
        self._known: tuple[Vector, float, Vector, Matrix | None] | None = None

    @property
    def passes(self) -> list[Pass]:
        """The passes so far, as they were timed."""
        return self.engine.passes

    # -- what the first pass finds ----------------------------------------------------------

    @cached_property
    def _transformer(self) -> Any:
        """The transformer, fitted."""
        transformer = self.table.transformer
        if transformer is None or _is_fitted(transformer):
            return transformer
        rows = self.table.rows
        share = 1.0 if rows is None else min(1.0, FIT_ROWS / max(rows, 1))
        parts = range(len(self.table.parts))
        frame = self.engine.run(
            "fitting the transformer", self.table, parts, frame_of_partition, share,
            concatenate_frames,
        )  # fmt: skip
        return transformer.fit(frame)

    def _scanned(self, size: int = 0, seed: int = 0) -> Scan:
        """Return what a first pass found, and a sample where one is drawn in the same pass."""
        if self._scan is not None and not size:
            return self._scan
        table, limit = self.table, math.inf
        rows = table.rows if self._scan is None else sum(self._scan.rows)
        if size and rows:
            # Ten standard deviations above what is needed.
            limit = (size + 10 * math.sqrt(size) + 100) / rows
        names = None if table.transformer is not None else table.names
        job = ScanJob(
            self._transformer, self._kind, self._classes, self.intercept, names, size, seed, limit
        )
        scan = self.engine.run(
            "sample" if size else "first look", table, range(len(table.parts)),
            scan_partition, job, _Merge(size),
        )  # fmt: skip
        if self._scan is None:
            self._require_sound(scan)
        self._scan = scan._replace(sample=None)
        return scan

    def _require_sound(self, scan: Scan) -> None:
        """Refuse a table with gaps, with partitions unlike the others, or without rows."""
        if scan.faults:
            groups: dict[tuple[str, str], list[str]] = {}
            for name, part, what in scan.faults:
                groups.setdefault((name, what), []).append(part)
            listed = [
                f"{name} {what} in partition{'s' * (len(parts) > 1)} {', '.join(parts)}"
                for (name, what), parts in groups.items()
            ]
            raise ValueError(
                f"The table must have a finite number in every column and row, and the same columns in every "
                f"partition, but has {'; '.join(listed)}. Drop or impute those rows, or pass a "
                f"transformer that does."
            )
        if not sum(scan.rows) or not sum(scan.weights) > 0:
            got = Words(f"{sum(scan.rows)} rows of weight {sum(scan.weights):g}")
            raise ValueError(message("X", got, "a table with rows, not all of weight zero"))

    @cached_property
    def family(self) -> Family:
        """The family, with its classes."""
        if not self._kind.classifier:
            return self._kind()
        found = sorted(self._scanned().classes)
        binary = self._kind is families.Logistic
        if self._classes is None:
            return self._kind(families.check_classes(None, np.array(found), binary=binary))
        classes = families.check_classes(self._classes, None, binary=binary)
        self._kind(classes).encode(np.array(found))
        return self._kind(classes)

    @cached_property
    def dim(self) -> int:
        """Number of parameters."""
        return (self._scanned().width + int(self.intercept)) * self.family.outputs

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self._scanned().rows)

    @property
    def work(self) -> Work:
        """About how long a gradient and a Hessian take, on one core."""
        scan, outputs = self._scanned(), self.family.outputs
        gradient = READING * scan.entries + outputs * (2.0 * scan.entries + 15.0 * self.rows)
        return Work(gradient, scan.gram * outputs * (outputs + 1) / 2, self.rows)

    @cached_property
    def returns_hessians(self) -> bool:
        """Whether a pass returns the Hessian with the gradient."""
        if self.newton is not None:
            return self.newton
        work = self.work
        return self.partitions_per_batch is None and work.hessian <= work.gradient

    @property
    def gradient_source(self) -> str:
        """What a pass costs, and whether it returns the Hessian."""
        work, count = self.work, len(self.table.parts)
        times = [each.seconds for each in self.passes if each.partitions == count]
        first = (
            "Newton: a pass returns the Hessian, too"
            if self.returns_hessians
            else "quasi-Newton: a pass returns no Hessian"
        )
        each = f"{work.hessian / work.rows:.3g} ns a row for it, {work.gradient / work.rows:.3g} ns to read the row and its gradient"
        size = f"{count} partitions, {self.rows:,} rows"
        seconds = f"{np.median(times):.3g} s" if times else "not measured"
        return f"{first} (about {each}); a pass over {size} takes {seconds}, {len(times)} were made"

    # -- the loss ---------------------------------------------------------------------------

    def value(self, w: Vector) -> float:
        """Return L(w)."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return ∇L(w), or its unbiased estimate from the partitions of a batch."""
        return self.value_and_gradient(w, batch)[1]

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return L(w) and ∇L(w) of one pass; of a batch, those of its partitions."""
        if batch is not None:
            means = [self._mean(w, [part]) for part in batch]
            value, gradient = (sum(each) / len(means) for each in zip(*means, strict=True))
            return value, gradient
        known = self._known
        if known is None or not np.array_equal(known[0], w):
            known = self._pass(w, hessian=self.returns_hessians)
        return known[1], known[2].copy()

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²L(w) v in one pass."""
        check.require_point("v", v, self.dim)
        sums = self._sums("Hessian product", w, direction=v)
        return sums.gradient / sums.weight + self._strengths * v

    def hessian(self, w: Vector) -> Matrix:
        """Return the d × d matrix ∇²L(w), of one pass."""
        known = self.curvature(w)
        if known is None:
            known = self._pass(w, hessian=True)[3]
        assert known is not None
        return known.copy()

    def curvature(self, w: Vector) -> Matrix | None:
        """Return the Hessian where it came with the last gradient."""
        known = self._known
        return known[3] if known is not None and np.array_equal(known[0], w) else None

    def _pass(self, w: Vector, *, hessian: bool) -> tuple[Any, ...]:
        sums = self._sums("gradient", w, hessian=hessian)
        value, gradient = self._add_ridge(w, sums)
        matrix = sums.hessian / sums.weight + np.diag(self._strengths) if hessian else None
        self._known = np.array(w), value, gradient, matrix
        return self._known

    def _mean(self, w: Vector, parts: list[int]) -> tuple[float, Vector]:
        return self._add_ridge(w, self._sums("batch", w, parts=parts))

    def _add_ridge(self, w: Vector, sums: Sums) -> tuple[float, Vector]:
        ridge = self._strengths * w
        value = sums.loss / sums.weight + float(w @ ridge) / 2
        return value, sums.gradient / sums.weight + ridge

    def _sums(self, purpose: str, w: Vector, parts: Any = None, **wanted: Any) -> Sums:
        check.require_point("w", w, self.dim)
        w = np.asarray(w, dtype=np.float64)
        job = Job(self._transformer, self.family, self.intercept, w, **wanted)
        chosen = range(len(self.table.parts)) if parts is None else parts
        sums: Sums = self.engine.run(purpose, self.table, chosen, sum_partition, job, add_sums)
        return sums

    @cached_property
    def _strengths(self) -> Vector:
        """The L2 term's strength for each parameter: zero for intercepts."""
        strengths = np.full((self.dim // self.family.outputs, self.family.outputs), self.l2)
        if self.intercept:
            strengths[-1] = 0.0
        return strengths.ravel()

    @property
    def strong_convexity(self) -> float:
        """A bound μ on the Hessian's smallest eigenvalue, over all w."""
        return 0.0 if self.intercept else self.l2

    def fingerprint(self) -> str:
        """Return a text that only losses of the same data, family and settings share."""
        scan, family = self._scanned(), self.family
        kind = self._kind.__name__, getattr(family, "classes", ()), self.l2, self.intercept
        return digest(*kind, self.partitions_per_batch, scan.rows, scan.weights, scan.marks)

    # -- sampling ---------------------------------------------------------------------------

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    @property
    def exact(self) -> bool:
        """Whether every gradient is of all rows."""
        return self.partitions_per_batch is None

    def everything(self) -> Batch:
        """Return the batch of all partitions."""
        return None

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw partitions with replacement, in proportion to their weights (None: all)."""
        if self.partitions_per_batch is None:
            return None
        weights = np.array(self._scanned().weights)
        return rng.choice(len(weights), self.partitions_per_batch, p=weights / weights.sum())

    def halves(self, batch: Batch) -> tuple[Batch, Batch] | None:
        """Return the two halves of a batch of even length: their gap shows the batch's noise."""
        middle = 0 if batch is None or len(batch) % 2 else len(batch) // 2
        return (batch[:middle], batch[middle:]) if middle else None

    def samples(self, batch: Batch) -> int:
        """Return the number of rows (labels) of a batch."""
        rows = self._scanned().rows
        return sum(rows) if batch is None else sum(rows[part] for part in batch)

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
        self._require_room(n)
        sample = self._scanned(n, seed).sample
        found = 0 if sample is None else len(sample.keys)
        if sample is None or found < n:
            raise ValueError(message("n", n, f"at most the number of rows, {self.rows}"))
        codes = Encoded(self.family.encode(sample.y))
        design = Design(sample.X, intercept=self.intercept)
        return GLM(design, codes, self.family, l2=self.l2, sample_weight=sample.weights)

    def _require_room(self, n: int) -> None:
        """Refuse a sample that neither the workers nor this process have room for."""
        columns = len(self.table.names) if self._scan is None else self._scan.width
        size = 8.0 * n * columns
        # Merging holds the samples and their union; the driver's copy is on top of its own data.
        import psutil

        here, worker = psutil.virtual_memory().available, self.engine.memory()
        for where, need, room in (
            ("a worker", 2 * min(FAN_IN, len(self.table.parts)) * size, SHARE * worker),
            ("this process", 2 * size, here),
        ):
            if need > room:
                got = Words(
                    f"{n:,}: {need / 2**20:,.0f} MiB on {where}, which has {room / 2**20:,.0f}"
                )
                remedy = "Draw fewer rows, or give the workers more memory."
                most = int(n * room / need)
                raise ValueError(message("n", got, f"at most {most:,} here", remedy))


class _Merge:
    """Merges scans into one of a sample's size; a class, so that it can be sent."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, parts: list[Scan]) -> Scan:
        return merge_scans(parts, self.size)


def _is_fitted(transformer: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return False
    return True


def linear_regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
    """Return the least-squares loss ``mean (xᵀw − y)²/2``; options as in `PartitionedGLM`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> loss = linear_regression(da.eye(2, chunks=2), np.array([1.0, 2.0]))
    >>> loss.value(np.zeros(2))
    1.25
    """
    return PartitionedGLM(X, y, families.Linear, **options)


def logistic_regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
    """Return the logistic loss for labels of two classes; options as in `PartitionedGLM`.

    The larger of the two labels is the positive class; ``classes=(negative, positive)`` says
    otherwise.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> loss = logistic_regression(da.ones((2, 1)), np.array([0, 1]), l2=0.1)
    >>> round(loss.value(np.zeros(1)), 6)
    0.693147
    """
    return PartitionedGLM(X, y, families.Logistic, **options)


def softmax_regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
    """Return the multinomial logistic loss; options as in `PartitionedGLM`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> loss = softmax_regression(da.eye(3, chunks=3), np.array(["a", "b", "c"]))
    >>> loss.dim, round(loss.value(np.zeros(9)), 6)
    (9, 1.098612)
    """
    return PartitionedGLM(X, y, families.Softmax, **options)


def poisson_regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
    """Return the Poisson loss ``mean exp(xᵀw) − y xᵀw``; options as in `PartitionedGLM`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> poisson_regression(da.ones((2, 1)), np.array([0, 3])).value(np.zeros(1))
    1.0
    """
    return PartitionedGLM(X, y, families.Poisson, **options)


def gamma_regression(X: Any, y: Any = None, **options: Any) -> PartitionedGLM:
    """Return half the Gamma deviance of amounts above zero; options as in `PartitionedGLM`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> gamma_regression(da.ones((2, 1)), np.array([1.0, 3.0])).gradient(np.zeros(1))
    array([-1.])
    """
    return PartitionedGLM(X, y, families.Gamma, **options)
