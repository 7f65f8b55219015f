"""What cannot work is refused before or at the first pass, and nothing is lost."""

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest

import proxyprox as pp
from proxyprox.dask import linear_regression, logistic_regression, read_parquet

ABCD = list("abcd")


@pytest.fixture
def frame(data):
    X, y, _ = data
    return pd.DataFrame(X, columns=ABCD).assign(y=y)


def refused(kind, *words, loss):
    """Make a loss and ask for its value: the error has all of the words."""
    with pytest.raises(kind) as error:
        loss().value(np.zeros(4))
    for word in words:
        assert word in str(error.value), (word, str(error.value))


def test_gaps_are_named_all_at_once(tmp_path, frame):
    frame.loc[10, "a"], frame.loc[[20, 500], "c"] = np.nan, np.inf
    frames = dd.from_pandas(frame, npartitions=4)
    words = "'a' NaN or infinite in 0;", "'c' NaN or infinite in 0, 3."
    refused(ValueError, *words, loss=lambda: logistic_regression(frames[ABCD], frames["y"]))
    frame.to_parquet(tmp_path / "0.parquet", row_group_size=300)
    table = read_parquet(tmp_path, label="y")
    words = "'a' NaN or infinite in 0.parquet:0;", "in 0.parquet:0, 0.parquet:1"
    refused(ValueError, *words, loss=lambda: logistic_regression(table).sample_rows(10))


def test_labels_and_weights_that_are_missing_or_wrong_are_named(data):
    X, y = da.from_array(data[0], chunks=(150, 4)), np.arange(600)
    gap = data[1].astype(object)
    gap[500] = None
    mixed = np.array([0, "yes"], dtype=object)[y % 2]
    for kind, word, labels, options in (
        (ValueError, "labels missing in 3", gap, {}),
        (ValueError, "y must be two classes", y, {}),
        (ValueError, "y must be one of the classes", y % 2, {"classes": (1, 2)}),
        (TypeError, "y must be labels of one kind", mixed, {}),
        (ValueError, "weights", y % 2, {"sample_weight": -np.ones(600)}),
        (ValueError, "weight zero", y % 2, {"sample_weight": np.zeros(600)}),
    ):
        refused(kind, word, loss=lambda y=labels, o=options: logistic_regression(X, y, **o))
    refused(
        ValueError, "labels other than", loss=lambda: linear_regression(X, np.full(600, np.nan))
    )


def test_partitions_of_other_columns_or_types(frame):
    def spoil(part, partition_info=None):
        number = partition_info["number"] if partition_info else 0
        part = part.rename(columns={"b": "z"}) if number == 1 else part
        return part.astype({"d": int}) if number == 2 else part

    frames = dd.from_pandas(frame, npartitions=3)
    X = frames[ABCD].map_partitions(spoil, meta=frame[ABCD], enforce_metadata=False)
    words = "columns", "'z'", "int64"
    refused(ValueError, *words, loss=lambda: logistic_regression(X, frames["y"]))


def test_parquet_that_cannot_be_one_table(tmp_path, frame):
    frame.to_parquet(tmp_path / "0.parquet")
    frame.astype({"a": np.float32}).to_parquet(tmp_path / "1.parquet")
    frame.drop(columns="b").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"'a' is float in 1\.parquet.*'b' is absent in 2\.par"):
        read_parquet(tmp_path, label="y")
    read_parquet(tmp_path, label="y", columns=["c"])
    (tmp_path / "notes.txt").write_text("no table")
    with pytest.raises(ValueError, match=r"path.*notes\.txt"):
        read_parquet(tmp_path, label="y")
    alone = tmp_path / "alone.parquet"
    frame.assign(city="Rome").to_parquet(alone)
    for name, kind, options in (
        ("label", ValueError, {"label": "z"}),
        ("columns", ValueError, {"label": "y", "columns": ["a", "z"]}),
        ("columns.*'city'", ValueError, {"label": "y"}),
        ("transformer", TypeError, {"label": "y", "transformer": "onehot"}),
    ):
        with pytest.raises(kind, match=name):
            read_parquet(alone, **options)
    with pytest.raises(ValueError, match="path"):
        read_parquet(tmp_path / "absent", label="y")
    table = read_parquet(alone, label="y", columns=["a"])
    for name, options in (("y", {"y": np.zeros(3)}), ("client", {"client": "tcp://127.0.0.1:1"})):
        with pytest.raises(TypeError, match=name):
            logistic_regression(table, **options)


def test_files_without_rows_may_have_any_types(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0], "y": [0, 1]})
    frame.astype(object).iloc[:0].to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    assert logistic_regression(read_parquet(tmp_path, label="y")).design.rows == 2


def test_divisions_that_do_not_match(frame):
    X = dd.from_pandas(frame[ABCD], npartitions=3)
    texts = dd.from_pandas(frame.assign(city="Rome")[["city"]], npartitions=1)
    # Unknown divisions: as many partitions, whose rows are counted in the first pass.
    unknown = X.clear_divisions()
    assert logistic_regression(unknown, X.assign(y=1.0)["y"], classes=(0, 1)).design.rows == 600
    few = dd.from_pandas(frame["y"].iloc[:-5], npartitions=3).clear_divisions()
    array = da.from_array(frame[["a"]].to_numpy())
    for kind, word, inputs, labels in (
        (ValueError, "y must be divided", X, dd.from_pandas(frame["y"], npartitions=4)),
        (ValueError, "rows of inputs", unknown, few),
        (ValueError, "y must be divided", array, da.zeros(5)),
        (TypeError, "y must be a Dask array", X, frame["y"]),
        (TypeError, "y must be given", X, None),
        (TypeError, "X must be a Dask array", frame[["a"]], frame["y"]),
        (ValueError, "'city'", texts, None),
    ):
        refused(kind, word, loss=lambda X=inputs, y=labels: logistic_regression(X, y))


def test_empty_partitions_are_fine_and_empty_tables_are_not(frame):
    ordered = frame.sort_values("a", ignore_index=True)
    frames = dd.from_pandas(ordered, npartitions=3)
    some = frames[frames["a"] > 0.5]
    loss = logistic_regression(some[ABCD], some["y"])
    assert loss.sample_rows(50).design.rows == 50
    some = ordered[ordered["a"] > 0.5]
    same = pp.logistic_regression(some[ABCD], some["y"])
    np.testing.assert_allclose(loss.gradient(np.ones(4)), same.gradient(np.ones(4)))
    none = frames[frames["a"] > 1e9]
    refused(ValueError, "rows", loss=lambda: logistic_regression(none[ABCD], none["y"]))


def test_a_sample_that_does_not_fit(data):
    X, y = da.from_array(data[0], chunks=(150, 4)), data[1]
    for n in (10**13, 601):
        with pytest.raises(ValueError, match="n must be at most"):
            logistic_regression(X, y).sample_rows(n)


def test_a_run_whose_client_is_closed_resumes(tmp_path, data, cluster):
    X, y = da.from_array(data[0], chunks=(150, 4)), data[1]

    def run(**options):
        loss = logistic_regression(X, y, l2=1e-6)
        return loss, pp.minimize(pp.Problem(loss, loss.sample_rows(100)), **options)

    client, path = distributed.Client(cluster), tmp_path / "run"
    with pytest.raises(pp.OracleError, match=r"client must be open.*saved") as broken:
        run(checkpoint=path, callback=lambda step: step.record.k == 2 and client.close())
    assert broken.value.result.steps == 3
    with distributed.Client(cluster):
        loss, result = run(checkpoint=path)
    assert "Resumed" in result.message
    assert len(loss.passes) == 1 + result.steps - 3
    np.testing.assert_array_equal(run()[1].w, result.w)


def test_a_run_over_files_that_break_and_are_mended_resumes(tmp_path, frame):
    folder = tmp_path / "table"
    folder.mkdir()

    def write(part=frame):
        part.to_parquet(folder / "0.parquet", row_group_size=200)

    def run(**options):
        loss = logistic_regression(read_parquet(folder, label="y"))
        problem = pp.Problem(loss, loss.sample_rows(100))
        return pp.minimize(problem, checkpoint=tmp_path / "run", **options)

    write()
    with pytest.raises(pp.OracleError, match="saved"):
        run(callback=lambda step: step.record.k == 1 and (folder / "0.parquet").unlink())
    write(frame.assign(a=np.nan))
    with pytest.raises(ValueError, match="finite"):
        run()
    write(frame.iloc[::-1])
    with pytest.raises(pp.CheckpointError):
        run()
    write()
    assert "Resumed" in run().message
