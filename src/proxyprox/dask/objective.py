"""Generalised linear models of a table in partitions: one pass over the cluster, one answer.

A pass sums over the partitions on the workers, in a tree in the order of the partitions, so that
the sum does not depend on who computed what, and hands one vector to the driver. The engine's
scheduler runs it: a failed task is repeated, those of a lost worker are run elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import operator
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import dask
import distributed
import numpy as np
import pandas
import psutil
import scipy.sparse
from dask.delayed import Delayed
from dask.diagnostics import ProgressBar
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector
from proxyprox._util.digests import digest
from proxyprox._util.text import list_names
from proxyprox._util.validation import Words, message
from proxyprox.dask import tables
from proxyprox.dask.policy import CLUSTER
from proxyprox.problems import families
from proxyprox.problems.families import Family
from proxyprox.problems.glm import GLM, Design, Encoded, as_targets
from proxyprox.problems.protocols import Batch, Work

Array = Any


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
    """Weighted sums over rows; along a direction the Hessian's product is in place of ∇."""

    weight: float
    loss: float
    gradient: Any
    hessian: Any


def sum_partition(number: int, part: Any, job: Job) -> Sums:
    """Return the sums over the rows of one partition."""
    family, totals, scratch = job.family, Sums(0.0, 0.0, 0.0, 0.0), None
    shape = (-1,) if family.outputs == 1 else (-1, family.outputs)
    for X, y, s in tables.read_blocks(*tables.open_partition(part), job.transformer):
        design = Design(X, intercept=job.intercept, checked=True)
        t = as_targets(design, family, _encode(family, y))
        weights = np.broadcast_to(1.0, len(y)) if s is None else s.astype(np.float64)
        loss = hessian = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            z = design.predict(job.w.reshape(shape))
            if job.direction is None:
                loss, bent = float(weights @ family.loss(z, t)), family.slope(z, t)
            else:
                bent = _bend(family, z, t, design.predict(job.direction.reshape(shape)))
            pulled = design.pull(bent if s is None else (weights * bent.T).T)
            if job.hessian and family.outputs > 1:
                hessian = design.softmax_gram(family.mean(z), weights)
            elif job.hessian:
                scratch = np.empty((design.width, len(y))) if scratch is None else scratch
                hessian = _gram(design, weights * family.curvature(z, t), scratch)
        totals = add_sums([totals, Sums(float(weights.sum()), loss, np.ravel(pulled), hessian)])
    return totals


def add_sums(parts: list[Sums]) -> Sums:
    """Return the sum, in the order of the parts."""
    return Sums(*(sum(each[1:], start=each[0]) for each in zip(*parts, strict=True)))


def _encode(family: Family, y: Array) -> Array:
    """Return labels as targets; two classes that are numbers are told apart without sorting."""
    if isinstance(family, families.Logistic) and y.dtype.kind in "biuf":
        negative, positive = (y == each for each in family.classes)
        if (negative | positive).all():
            return positive
    return family.encode(y)


def _bend(family: Family, z: Array, t: Array, along: Array) -> Array:
    """Return each row's curvature times its predictor along a direction."""
    if family.outputs == 1:
        return family.curvature(z, t) * along
    p = family.mean(z)
    return p * (along - np.sum(p * along, axis=1, keepdims=True))


def _gram(design: Design, weights: Array, scratch: Array) -> Matrix:
    """Return ``Xᵀ diag(weights) X``; workers of Dask get fresh memory slowly, scratch is reused."""
    if design.sparse:
        return design.gram(weights)
    roots, scaled = np.sqrt(weights), scratch[:, : len(weights)]
    np.multiply(design.XT, roots, out=scaled[: design.columns])
    scaled[design.columns :] = roots
    return scaled @ scaled.T


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
    keys, X, y, weights = zip(*samples, strict=True)
    sparse = scipy.sparse.issparse(X[0])
    stacked = scipy.sparse.vstack(X, format="csr") if sparse else np.concatenate(X)
    key, label, weight = (np.concatenate(each) for each in (keys, y, weights))
    kept = np.sort(np.argsort(key, kind="stable")[:size])
    return [Sample(key[kept], stacked[kept], label[kept], weight[kept])]


class Draw(NamedTuple):
    """How many rows to draw by keys of a seed; no row of a key above the limit is among them."""

    size: int = 0
    seed: int = 0
    limit: float = math.inf


class Drawing:
    """The sample of one partition, drawn block by block."""

    def __init__(self, number: int, draw: Draw) -> None:
        self.size, self.limit, self.samples = draw.size, draw.limit, list[Sample]()
        self.rng = np.random.default_rng([draw.seed, number])

    def add(self, X: Any, y: Array, weights: Array, among: Any = True) -> None:
        """Draw among the rows of a block."""
        keys = self.rng.random(len(y))
        kept = np.flatnonzero((keys < self.limit) & among)
        self.samples.append(Sample(keys[kept], X[kept], y[kept], weights[kept]))
        if sum(len(each.keys) for each in self.samples) > 2 * self.size:
            self.samples = merge_samples(self.samples, self.size)
            self.limit = float(self.samples[0].keys.max())


class Look(NamedTuple):
    """What a first pass finds: of each partition its size and a hash, and of all the rest.

    ``work`` are the columns, the entries and the nanoseconds of a Gram matrix.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...]
    hashes: tuple[int, ...]
    faults: tuple[tuple[str, int], ...]
    classes: tuple[Any, ...]
    work: Array
    samples: list[Sample]


def look_at_partition(number: int, part: Any, job: Any) -> Look:
    """Return what one partition holds: its size, its faults, its classes and its sampled rows."""
    transformer, columns, family, intercept, draw = job
    rows, weight, mark, work = 0, 0.0, 0, np.zeros(3)
    faults, classes, drawing = dict[str, None](), dict[Any, None](), Drawing(number, draw)
    data = tables.open_partition(part)
    if fault := tables.column_fault(*data, columns):
        return Look((0,), (0.0,), (0,), ((fault, number),), (), work, [])
    for X, y, s in tables.read_blocks(*data, transformer):
        design = Design(X, intercept=intercept, checked=True)
        weights = np.ones(len(y)) if s is None else s.astype(np.float64)
        rows, weight = rows + len(y), weight + float(weights.sum())
        inputs = (X.data, X.indices, X.indptr) if design.sparse else (np.ascontiguousarray(X.T),)
        work += np.array([0, inputs[0].size, min(design.gram_work)])
        work[0] = design.columns
        for array in (*inputs, pandas.util.hash_array(y), weights):
            mark = zlib.crc32(array, mark)
        names = [name for name, _ in columns] if transformer is None else range(design.columns)
        faults |= {f"column {names[j]!r} NaN or infinite": None for j in _gaps(X)}
        faults |= dict.fromkeys(_label_faults(y, family, classes))
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            faults["weights that are negative or not finite"] = None
        if draw.size:
            drawing.add(X, y, weights)
    found = tuple((fault, number) for fault in faults)
    samples = merge_samples(drawing.samples, draw.size)
    met = tuple(classes)[: CLUSTER.rows]
    return Look((rows,), (weight,), (mark,), found, met, work, samples)


def merge_looks(parts: list[Look], size: int) -> Look:
    """Return what several looks found together."""
    *lists, classes, work, samples = zip(*parts, strict=True)
    total = np.sum(work, axis=0)
    total[0] = np.max(work, axis=0)[0]
    joined = (tuple(chain.from_iterable(each)) for each in lists)
    known = tuple(dict.fromkeys(chain.from_iterable(classes)))[: CLUSTER.rows]
    drawn = merge_samples([*chain.from_iterable(samples)], size)
    return Look._make((*joined, known, total, drawn))


def _gaps(X: Any) -> Array:
    """Return the columns that have entries that are not finite."""
    sparse = scipy.sparse.issparse(X)
    values = X.data if sparse else X
    if np.isfinite(values.sum()):
        return ()
    wrong = ~np.isfinite(values)
    return np.unique(X.indices[wrong] if sparse else np.nonzero(wrong)[1])


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
    """Return at most so many rows of a partition's inputs as a DataFrame, drawn at random."""
    frame = tables.as_frame(tables.open_partition(part)[0])
    return frame.iloc[np.random.default_rng([0, number]).permutation(len(frame))[:job]]


# -- the engine ---------------------------------------------------------------------------------


class Pass(NamedTuple):
    """One pass over partitions, as it was timed."""

    purpose: str
    partitions: int
    seconds: float


def run_bundle(
    task: Callable[..., Any], parts: Sequence[tuple[int, Any]], merge: Callable[[list[Any]], Any]
) -> Any:
    """Return a task's results for partitions, one after the other, merged."""
    total = [task(*parts[0])]
    for part in parts[1:]:
        total = [merge([*total, task(*part)])]
    return total[0]


class Engine:
    """Dask's scheduler: the client given, or current when this was made, or the local one."""

    def __init__(self, client: Any = None, retries: int = 2, progress: bool = False) -> None:
        named = dask.config.get("scheduler", None) or "distributed"
        if client is None and "distributed" in str(named):
            # There may be none.
            with contextlib.suppress(ValueError):
                client = distributed.default_client()
        if not (client is None or hasattr(client, "scheduler_info")):
            raise TypeError(message("client", client, "a distributed.Client", "Client(address)"))
        self.client, self.passes = client, list[Pass]()
        self.retries = check.whole("retries", retries, 0)
        self.progress = check.flag("progress", progress)
        self._threads = ThreadpoolController()
        threads = 0 if client is None else sum(client.nthreads().values())
        # More tasks than threads: a slow worker leaves some of its share to others.
        self._most_tasks = CLUSTER.fan_in * max(threads, CLUSTER.fan_in)

    def run(
        self, purpose: str, graph: dict[Any, Any], parts: Sequence[tuple[int, Any]],
        task: Callable[..., Any], job: Any, merge: Callable[[list[Any]], Any] | None,
    ) -> Any:  # fmt: skip
        """Return a task's results for some partitions, in their order: merged, or a list."""
        begun, name = time.perf_counter(), f"proxyprox-{uuid.uuid4().hex}"
        # A plain dictionary: calls of dask.delayed take ten times as long.
        tasks: dict[Any, Any] = {name: partial(task, job=job)}
        # What workers read themselves is read in bundles: the scheduler's work does not grow.
        reads = merge is not None and all(callable(part) for _, part in parts)
        each = math.ceil(len(parts) / self._most_tasks) if reads else 1
        level: list[Any] = [(f"part-{name}", i) for i in range(0, len(parts), each)]
        for key in level:
            bundle = parts[key[1] : key[1] + each]
            whole = partial(run_bundle, parts=bundle, merge=merge or list)
            tasks[key] = (whole, name) if each > 1 else (operator.call, name, *bundle[0])
        size = CLUSTER.fan_in if merge else len(level)
        while len(level) > 1 or merge is None:
            groups = [level[i : i + size] for i in range(0, len(level), size)]
            level = [(f"merge-{len(tasks)}-{name}", place) for place in range(len(groups))]
            merge = merge or list
            tasks |= {k: (merge, group) for k, group in zip(level, groups, strict=True)}
        found = self._compute(Delayed(level[0], {**graph, **tasks}))
        self.passes.append(Pass(purpose, len(parts), time.perf_counter() - begun))
        return found

    def _compute(self, value: Any) -> Any:
        if self.client is None:
            bar = ProgressBar() if self.progress else contextlib.nullcontext()
            # The scheduler's tasks are the threads.
            with bar, self._threads.limit(limits=1, user_api="blas"):
                return value.compute()
        remedy = "Open a Client and build the target anew; a run with a checkpoint resumes."
        closed = message("client", Words("one that is closed"), "open", remedy)
        if self.client.status != "running":
            raise RuntimeError(closed)
        future = self.client.compute(value, retries=self.retries)
        try:
            if self.progress:
                distributed.progress(future, notebook=False)
            return future.result()
        except distributed.CancelledError as error:
            raise RuntimeError(closed) from error
        except distributed.scheduler.KilledWorker as error:
            raise MemoryError(
                "Workers died while they read a partition, so often that Dask gave up: one may be "
                "too large for a worker's memory. Write smaller row groups or partitions, or give "
                f"the workers more memory. Dask says: {error}"
            ) from error
        finally:
            future.release()

    def require_room(self, argument: str, n: int, columns: int, partitions: int) -> None:
        """Refuse a sample of n rows that neither the workers nor this process have room for."""
        rooms = {"this process has": (psutil.virtual_memory().available, 2)}
        if self.client is not None and self.client.status == "running":
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
            least = min((each["memory_limit"] or math.inf for each in workers), default=math.inf)
            # Beyond its target a worker writes what it holds to disk.
            share = dask.config.get("distributed.worker.memory.target") or 1.0
            copies = 2 * min(CLUSTER.fan_in, partitions)
            rooms["a worker has for it"] = (share * least, copies)
        for where, (room, copies) in rooms.items():
            need = 8.0 * n * columns * copies
            if need > room:
                got = Words(f"{n:,}, {need / 2**20:,.0f} MiB, while {where} {room / 2**20:,.0f}")
                remedy = "Draw fewer rows, or give the workers more memory."
                raise ValueError(
                    message(argument, got, f"at most {int(n * room / need):,}", remedy)
                )


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
        Newton's. By default it does where that takes less than half the time of reading a row and
        its gradient.
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
        retries: int = 2,
        progress: bool = False,
    ) -> None:
        if not (isinstance(family, type) and issubclass(family, Family)):
            raise TypeError(message("family", family, "a class of families, such as Logistic"))
        self.engine = Engine(client, retries, progress)
        self.table = tables.as_table(X, y, sample_weight, transformer)
        if y is None and not isinstance(X, tables.Table):
            raise TypeError(message("y", y, "given: a Dask array or Series, divided as X is"))
        if not self.table.parts:
            raise ValueError(message("X", Words("no row group"), "a table with rows"))
        self.l2 = check.nonnegative("l2", l2)
        self.intercept = check.flag("intercept", intercept)
        self.newton = None if newton is None else check.flag("newton", newton)
        if partitions_per_batch is not None:
            check.whole("partitions_per_batch", partitions_per_batch)
        self.partitions_per_batch = partitions_per_batch
        self._kind: Any = family
        self._classes = classes
        self._seen: Look | None = None
        # The last point with what a pass found there.
        self._known: tuple[Vector, float, Vector, Matrix | None] | None = None

    @property
    def passes(self) -> list[Pass]:
        """The passes so far, as they were timed."""
        return self.engine.passes

    # -- what the first pass finds ----------------------------------------------------------

    def _run(self, purpose: str, task: Any, job: Any, merge: Any, chosen: Any = None) -> Any:
        numbers = range(len(self.table.parts)) if chosen is None else chosen
        parts = [(number, self.table.parts[number]) for number in numbers]
        return self.engine.run(purpose, self.table.graph, parts, task, job, merge)

    @cached_property
    def _transformer(self) -> Any:
        """The transformer, fitted."""
        transformer = self.table.transformer
        try:
            if transformer is not None:
                check_is_fitted(transformer)
        except NotFittedError:
            count = math.ceil(CLUSTER.rows / len(self.table.parts))
            transformer.fit(self._run("fit of transformer", some_rows, count, pandas.concat))
        return transformer

    def _look(self, draw: Draw = Draw()) -> Look:  # noqa: B008
        """Return what a first pass found, and a sample where one is drawn in the same pass."""
        if self._seen is not None and not draw.size:
            return self._seen
        job = (self._transformer, self.table.columns, self._kind, self.intercept, draw)
        purpose = "sample" if draw.size else "first look"
        seen: Look = self._run(
            purpose, look_at_partition, job, partial(merge_looks, size=draw.size)
        )
        if seen.faults:
            where: dict[str, list[str]] = {}
            for fault, number in seen.faults:
                where.setdefault(fault, []).append(self.table.names[number])
            listed = [f"{what} in {list_names(names)}" for what, names in where.items()]
            remedy = "Drop or repair those rows; a transformer may impute inputs."
            raise ValueError(
                "The table must have the same columns in every partition, finite inputs, labels, "
                f"and weights of zero or more, but has {'; '.join(listed)}. {remedy}"
            )
        if not sum(seen.weights) > 0:
            got = Words(f"{sum(seen.rows)} rows of weight {sum(seen.weights):g}")
            raise ValueError(message("X", got, "a table with rows, not all of weight zero"))
        self._seen = seen._replace(samples=[])
        return seen

    @cached_property
    def family(self) -> Family:
        """The family, with its classes."""
        family: Family
        if not self._kind.classifier:
            family = self._kind()
            return family
        met, binary = np.fromiter(self._look().classes, object), self._kind is families.Logistic
        found = np.unique(families.label_array(met))
        classes = families.check_classes(self._classes, found, binary=binary)
        family = self._kind(classes)
        family.encode(found)
        return family

    @cached_property
    def dim(self) -> int:
        """Number of parameters."""
        return (int(self._look().work[0]) + int(self.intercept)) * self.family.outputs

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self._look().rows)

    @property
    def work(self) -> Work:
        """About how long a gradient and a Hessian take, on one core."""
        (_, entries, gram), outputs = self._look().work, self.family.outputs
        gradient = CLUSTER.reading * entries + outputs * (2.0 * entries + 15.0 * self.rows)
        return Work(gradient, gram * outputs * (outputs + 1) / 2, self.rows)

    @cached_property
    def returns_hessians(self) -> bool:
        """Whether a pass returns the Hessian with the gradient."""
        if self.newton is not None or not self.exact:
            return bool(self.newton)
        # Newton's steps are fewer by a third, so that they may cost half as much again.
        return self.work.hessian <= self.work.gradient / 2

    @property
    def gradient_source(self) -> str:
        """What a pass returns and why, and what it costs."""
        if self._seen is None:
            return "no pass was made"
        work, count = self.work, len(self.table.parts)
        times = [each.seconds for each in self.passes if each.partitions == count]
        which = "the Hessian: Newton" if self.returns_hessians else "no Hessian: quasi-Newton"
        each = f"{work.hessian / work.rows:.3g} ns a row for it, {work.gradient / work.rows:.3g}"
        why = f"about {each} for reading and the gradient" if self.newton is None else "as asked"
        size = f"{count} partitions, {work.rows:,} rows, {np.median(times):.3g} s each"
        return f"a pass returns {which} steps ({why}); {len(times)} passes ({size})"

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
            all_sums = self._sums("batch", w, batch)
            shares = [Sums(1.0, *(part / sums.weight for part in sums[1:])) for sums in all_sums]
            return self._add_ridge(w, add_sums(shares))
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

    def _add_ridge(self, w: Vector, sums: Sums) -> tuple[float, Vector]:
        ridge = self._strengths * w
        value = sums.loss / sums.weight + float(w @ ridge) / 2
        return value, sums.gradient / sums.weight + ridge

    def _sums(self, purpose: str, w: Vector, chosen: Any = None, **wanted: Any) -> Any:
        check.require_point("w", w, self.dim)
        w = np.asarray(w, dtype=np.float64)
        job = Job(self._transformer, self.family, self.intercept, w, **wanted)
        merge = add_sums if chosen is None else None
        return self._run(purpose, sum_partition, job, merge, chosen)

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
        seen, classes = self._look(), getattr(self.family, "classes", ())
        kind = self._kind.__name__, classes, self.l2, self.intercept, self.partitions_per_batch
        return digest(*kind, seen.rows, seen.hashes)

    # -- sampling ---------------------------------------------------------------------------

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    @property
    def exact(self) -> bool:
        """Whether every gradient is of all rows."""
        return self.partitions_per_batch is None

    everything, halves = GLM.everything, GLM.halves

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw partitions with replacement, in proportion to their weights (None: all)."""
        if self.partitions_per_batch is None:
            return None
        weights = np.array(self._look().weights)
        return rng.choice(len(weights), self.partitions_per_batch, p=weights / weights.sum())

    def samples(self, batch: Batch) -> int:
        """Return the number of rows (labels) of a batch."""
        rows = self._look().rows
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
        table, seen = self.table, self._seen
        columns = len(table.columns) if seen is None else int(seen.work[0])
        self.engine.require_room("n", n, columns, len(table.parts))
        rows = table.rows if seen is None else sum(seen.rows)
        # Of known rows ten standard deviations more than needed have keys below a limit.
        limit = (n + 10 * math.sqrt(n) + 100) / rows if rows else math.inf
        samples = self._look(Draw(n, seed, limit)).samples
        if self.rows < n:
            raise ValueError(message("n", n, f"at most the number of rows, {self.rows}"))
        _, X, y, weights = samples[0]
        design = Design(X, intercept=self.intercept)
        same = None if (weights == weights[0]).all() else weights
        codes = Encoded(self.family.encode(y))
        return GLM(design, codes, self.family, l2=self.l2, sample_weight=same)


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
