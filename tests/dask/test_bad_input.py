"""What cannot work is refused before or at the first pass, and nothing is lost."""

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest

import proxyprox as pp
from proxyprox.dask import linear_regression, logistic_regression, read_parquet


@pytest.fixture
def frame(data):
    X, y, _ = data
    return pd.DataFrame(X, columns=list("abcd")).assign(y=y)


def refused(frame, match, **options):
    with pytest.raises(ValueError, match=match) as error:
        logistic_regression(frame[list("abcd")], frame["y"], **options).value(np.zeros(4))
    return str(error.value)


def test_gaps_are_named_all_at_once(frame):
    frame.loc[10, "a"], frame.loc[[20, 500], "c"] = np.nan, np.inf
    text = refused(dd.from_pandas(frame, npartitions=4), "finite")
    assert "'a' NaN or infinite in 0;" in text
    assert "'c' NaN or infinite in 0, 3." in text


def test_gaps_in_parquet_are_named_by_file_and_row_group(tmp_path, frame):
    frame.loc[10, "a"], frame.loc[[20, 500], "c"] = np.nan, None
    frame.to_parquet(tmp_path / "0.parquet", row_group_size=300)
    with pytest.raises(ValueError, match="finite") as error:
        logistic_regression(read_parquet(tmp_path, label="y")).sample_rows(10)
    assert "'a' NaN or infinite in 0.parquet:0;" in str(error.value)
    assert "0.parquet:0, 0.parquet:1" in str(error.value)


def test_labels_that_are_missing_or_wrong_are_named(frame):
    frame["y"] = frame["y"].astype(object)
    frame.loc[500, "y"] = None
    # As arrays: a DataFrame would make text of objects.
    X, y = frame[list("abcd")].to_numpy(), frame["y"].to_numpy()
    X = da.from_array(X, chunks=(150, 4))
    with pytest.raises(ValueError, match="labels missing in 3"):
        logistic_regression(X, y).value(np.zeros(4))
    y = np.arange(600)
    with pytest.raises(ValueError, match=r"y must be two classes"):
        logistic_regression(X, y).value(np.zeros(4))
    with pytest.raises(ValueError, match=r"y must be one of the classes"):
        logistic_regression(X, y % 2, classes=(1, 2)).value(np.zeros(4))
    mixed = np.array([0, "yes"], dtype=object)[y % 2]
    with pytest.raises(TypeError, match="y must be labels of one kind"):
        logistic_regression(X, mixed).value(np.zeros(4))
    with pytest.raises(ValueError, match="labels other than"):
        linear_regression(X, np.full(600, np.nan)).value(np.zeros(4))
    with pytest.raises(ValueError, match="weights"):
        logistic_regression(X, y % 2, sample_weight=-np.ones(600)).value(np.zeros(4))


def test_partitions_of_other_columns_or_types(frame):
    def spoil(part, partition_info=None):
        number = partition_info["number"] if partition_info else 0
        part = part.rename(columns={"b": "z"}) if number == 1 else part
        return part.astype({"d": int}) if number == 2 else part

    frames = dd.from_pandas(frame, npartitions=3)
    y, X = frames["y"], frames[list("abcd")]
    X = X.map_partitions(spoil, meta=frame[list("abcd")], enforce_metadata=False)
    with pytest.raises(ValueError, match="columns") as error:
        logistic_regression(X, y).value(np.zeros(4))
    assert "'z'" in str(error.value)
    assert "int64" in str(error.value)


def test_files_of_other_columns_or_types(tmp_path, frame):
    frame.to_parquet(tmp_path / "0.parquet")
    frame.astype({"a": np.float32}).to_parquet(tmp_path / "1.parquet")
    frame.drop(columns="b").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match="path") as error:
        read_parquet(tmp_path, label="y")
    assert "'a' is float in 1.parquet" in str(error.value)
    assert "'b' is absent in 2.parquet" in str(error.value)


def test_tables_of_other_shapes(tmp_path, frame):
    frame["city"] = "Rome"
    frame.to_parquet(tmp_path / "0.parquet")
    for options, match in (
        ({"label": "z"}, "label"),
        ({"label": "y", "columns": ["a", "z"]}, "columns"),
        ({"label": "y"}, r"columns.*'city'"),
    ):
        with pytest.raises(ValueError, match=match):
            read_parquet(tmp_path, **options)
    with pytest.raises(ValueError, match="path"):
        read_parquet(tmp_path / "absent", label="y")
    table = read_parquet(tmp_path, label="y", columns=["a"])
    with pytest.raises(TypeError, match="y must be left out"):
        logistic_regression(table, np.zeros(3))
    with pytest.raises(TypeError, match="X must be a Dask array"):
        logistic_regression(frame[["a"]], frame["y"])
    with pytest.raises(ValueError, match=r"X must be numbers.*'city'"):
        logistic_regression(dd.from_pandas(frame[["city"]], npartitions=1), None)


def test_divisions_that_do_not_match(frame):
    X = dd.from_pandas(frame[list("abcd")], npartitions=3)
    y = dd.from_pandas(frame["y"], npartitions=4)
    with pytest.raises(ValueError, match=r"y must be divided.*repartition"):
        logistic_regression(X, y)
    # Unknown ones: as many partitions, whose rows are counted in the first pass.
    unknown, few = X.clear_divisions(), dd.from_pandas(frame["y"].iloc[:-5], npartitions=3)
    assert logistic_regression(unknown, X.assign(y=1.0)["y"], classes=(0, 1)).design.rows == 600
    with pytest.raises(ValueError, match="rows of inputs"):
        logistic_regression(unknown, few.clear_divisions()).value(np.zeros(4))
    with pytest.raises(ValueError, match="y must be divided"):
        logistic_regression(da.from_array(frame[["a"]].to_numpy()), da.zeros(5))
    with pytest.raises(TypeError, match="y must be a Dask array"):
        logistic_regression(X, frame["y"])
    with pytest.raises(TypeError, match="y must be given"):
        logistic_regression(X)


def test_empty_partitions_are_fine_and_empty_tables_are_not(frame):
    ordered = frame.sort_values("a", ignore_index=True)
    frames = dd.from_pandas(ordered, npartitions=3)
    some = frames[frames["a"] > 0.5]
    loss = logistic_regression(some[list("abcd")], some["y"])
    assert loss.sample_rows(50).design.rows == 50
    some = ordered[ordered["a"] > 0.5]
    same = pp.logistic_regression(some[list("abcd")], some["y"])
    np.testing.assert_allclose(loss.gradient(np.ones(4)), same.gradient(np.ones(4)))
    none = frames[frames["a"] > 1e9]
    refused(none, "rows")


def test_a_sample_that_does_not_fit(data, cluster):
    X, y = da.from_array(data[0], chunks=(150, 4)), data[1]
    with pytest.raises(ValueError, match="n must be at most"):
        logistic_regression(X, y).sample_rows(10**13)
    with pytest.raises(ValueError, match="n must be at most the number of rows"):
        logistic_regression(X, y).sample_rows(601)
    with distributed.Client(cluster) as client, pytest.raises(ValueError, match="a worker"):
        logistic_regression(X, y, client=client).sample_rows(2 * 10**8)


def test_a_run_whose_client_is_closed_resumes(tmp_path, data, cluster):
    X, y = da.from_array(data[0], chunks=(150, 4)), data[1]

    def run(**options):
        loss = logistic_regression(X, y, l2=1e-6, newton=False)
        problem = pp.Problem(loss, loss.sample_rows(100))
        return loss, pp.minimize(problem, checkpoint=tmp_path / "run", **options)

    client = distributed.Client(cluster)
    with pytest.raises(pp.OracleError, match=r"client must be open.*saved") as broken:
        run(callback=lambda step: step.record.k == 2 and client.close())
    assert broken.value.result.steps == 3
    with distributed.Client(cluster):
        loss, result = run()
    assert "Resumed" in result.message
    assert len(loss.passes) == 1 + result.steps - 3
    direct = logistic_regression(X, y, l2=1e-6, newton=False)
    whole = pp.minimize(pp.Problem(direct, direct.sample_rows(100)))
    np.testing.assert_array_equal(whole.w, result.w)


def test_a_run_over_files_that_break_and_are_mended_resumes(tmp_path, frame):
    folder = tmp_path / "table"
    folder.mkdir()

    def write(part=frame):
        part.to_parquet(folder / "0.parquet", row_group_size=200)

    def run(**options):
        loss = logistic_regression(read_parquet(folder, label="y"), newton=False)
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


def test_files_that_do_not_belong_are_named(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 2.0], "y": [0, 1]})
    frame.drop(columns="b").to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"'b' is absent in 0\.parquet"):
        read_parquet(tmp_path, label="y")
    (tmp_path / "notes.txt").write_text("no table")
    with pytest.raises(ValueError, match=r"path.*notes\.txt"):
        read_parquet(tmp_path, label="y")


def test_files_without_rows_may_have_any_types(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0], "y": [0, 1]})
    frame.astype(object).iloc[:0].to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    loss = logistic_regression(read_parquet(tmp_path, label="y"))
    assert loss.design.rows == 2


def test_a_transformer_and_a_client_that_are_none(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0], "y": [0, 1]})
    frame.to_parquet(tmp_path / "0.parquet")
    with pytest.raises(TypeError, match="transformer"):
        read_parquet(tmp_path, label="y", transformer="onehot")
    with pytest.raises(TypeError, match="client"):
        logistic_regression(read_parquet(tmp_path, label="y"), client="tcp://127.0.0.1:1")
