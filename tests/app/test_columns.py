"""What columns become: kinds that are found and told, findings by name, matrices without gaps."""

import json

import numpy as np
import pytest

from proxyprox_app.columns import Columns, date_format, parse_dates
from proxyprox_app.tables import DataError

pd = pytest.importorskip("pandas")
ROWS = 60


def messy(seed=0):
    """Return a table as people keep them."""
    rng = np.random.default_rng(seed)
    words = ["late", "broken", "fine", "rude", "quick"]
    frame = pd.DataFrame({
        "customer": [f"K{i:04d}" for i in range(ROWS)],
        "age": rng.integers(18, 80, ROWS).astype(float),
        "city": rng.choice(["Rome", "Bonn", "Oslo"], ROWS),
        "paid": rng.choice(["yes", "No", "Y"], ROWS),
        "since": [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2023" for i in range(ROWS)],
        "comment": [" ".join(rng.choice(words, 3)) + f" {i}" for i in range(ROWS)],
        "empty": [None] * ROWS,
        "land": ["DE"] * ROWS,
        "price": [f"{v:.2f}" for v in rng.gamma(2, 10, ROWS)],
        "code": [f"0{1000 + i % 7}" for i in range(ROWS)],
    })  # fmt: skip
    frame.loc[3, ["age", "city", "since"]] = None
    frame.loc[5, "price"] = "unknown"
    return frame.astype({name: object for name in frame if name != "age"})


def test_kinds_are_found():
    columns = Columns().plan(messy())
    assert {column.name: column.kind for column in columns.columns} == {
        "customer": "drop", "age": "number", "city": "category", "paid": "category",
        "since": "date", "comment": "text", "empty": "drop", "land": "drop", "price": "number",
        "code": "category",
    }  # fmt: skip
    told = {finding.column: finding.text for finding in columns.findings}
    assert set(told) == {"customer", "empty", "land", "price", "code"}
    assert "'unknown' (row 6)" in told["price"]
    assert not any(finding.fatal for finding in columns.findings)


def test_a_matrix_without_gaps_and_names_for_it():
    frame = messy()
    columns = Columns().fit(frame)
    X = columns.transform(frame)
    assert X.shape == (ROWS, len(columns.feature_names))
    assert np.isfinite(X).all()
    names = columns.feature_names
    for name in ("age", "age (missing)", "city = (missing)", "city = Rome", "paid = yes",
                 "price (missing)", "since month", "since (missing)"):  # fmt: skip
        assert name in names, names
    age, was_missing = X[:, names.index("age")], X[:, names.index("age (missing)")]
    assert abs(age.mean()) < 1e-12
    assert was_missing.tolist() == [float(i == 3) for i in range(ROWS)]
    assert age[3] == pytest.approx(
        (frame["age"].median() - frame["age"].fillna(frame["age"].median()).mean())
        / frame["age"].fillna(frame["age"].median()).std(ddof=0)
    )
    assert [s for n, s in zip(names, columns.sources, strict=True) if n == "city = Rome"] == [
        "city"
    ]


def test_a_new_table_in_other_order_with_other_values():
    frame = messy()
    columns = Columns().fit(frame)
    new = frame[frame.columns[::-1]].rename(columns={"city": " City "}).assign(extra=1).iloc[:9]
    new.columns = [name.strip() for name in new.columns]
    X, findings = columns.transform_with_findings(new)
    np.testing.assert_array_equal(X, columns.transform(frame)[:9])
    assert any("called 'City'" in str(finding) for finding in findings)
    odd = frame.iloc[:4].assign(city="Paris", age=["x", "41", None, "5"], since="someday")
    X, findings = columns.transform_with_findings(odd)
    told = {finding.column: finding.text for finding in findings}
    assert "4 cells such as 'Paris'" in told["city"]
    assert "without effect" in told["city"]
    assert "'x' (row 1)" in told["age"]
    assert "no date (day/month/year)" in told["since"]
    assert np.isfinite(X).all()


def test_kinds_may_be_told():
    kinds = {"customer": "text", "code": "number", "age": "category", "comment": "drop"}
    columns = Columns(kinds).plan(messy())
    found = {column.name: column.kind for column in columns.columns}
    assert {name: found[name] for name in kinds} == kinds
    wrong = Columns({"city": "number", "comment": "date", "citty": "text"}).plan(messy())
    fatal = {f.column or f.text[:17] for f in wrong.findings if f.fatal}
    assert fatal == {"city", "comment", "no column 'citty'"}
    with pytest.raises(DataError, match=r"city.*comment") as caught:
        wrong.fit(messy())
    assert "did you mean 'city'" in str(caught.value)
    with pytest.raises(DataError, match="one of number"):
        Columns({"city": "numeric"})


def test_copies_identifiers_and_mixtures_are_found():
    rng = np.random.default_rng(0)
    label = pd.Series(rng.choice(["a", "b"], ROWS), dtype=object).where(np.arange(ROWS) < 40, None)
    frame = pd.DataFrame({
        "id": rng.permutation(ROWS) + 1000.0,
        "row": np.arange(ROWS, dtype=float),
        "leak": label.map({"a": "x", "b": "y"}),
        "x": rng.normal(size=ROWS),
        "far": [*rng.normal(size=ROWS - 1), 9e9],
        "lists": [[1]] * ROWS,
        "mixed": np.where(np.arange(ROWS) % 2 == 0, "12", "red"),
    })  # fmt: skip
    frame["again"] = frame["x"]
    columns = Columns().plan(frame, labels=label)
    assert {column.name: column.kind for column in columns.columns} == {
        "id": "drop", "row": "drop", "leak": "drop", "x": "number", "lists": "drop",
        "far": "number",
        "mixed": "category", "again": "drop",
    }  # fmt: skip
    told = {finding.column: finding.text for finding in columns.findings}
    for name, words in {"leak": "tells the label", "again": "copy of x", "mixed": "50% numbers",
                        "lists": "lists", "id": "identifier", "far": "9e+09"}.items():  # fmt: skip
        assert words in told[name]
    numbers = pd.Series(np.where(np.arange(ROWS) < 40, frame["x"] * 2 + 1, np.nan))
    assert "tells the label" in str(Columns().plan(frame[["x", "mixed"]], numbers).findings[0])


@pytest.mark.parametrize(
    ("cells", "first", "doubt"),
    [
        (["31/01/2024", "05/02/2024"], "2024-01-31", False),
        (["01/31/2024", "02/05/2024"], "2024-01-31", False),
        (["31.01.2024", "05.02.2024"], "2024-01-31", False),
        (["03.04.2024", "05.02.2024"], "2024-04-03", True),
        (["2024-01-31", "2024-02-05 10:00"], "2024-01-31", False),
        (["2024-01-31T10:00:00+02:00", "2024-02-05T10:00:00+02:00"], "2024-01-31 08:00", False),
        (["31 Jan 2024", "5 Feb 2024"], "2024-01-31", False),
    ],
)
def test_dates_as_people_write_them(cells, first, doubt):
    text = pd.Series(cells, dtype=object)
    form, share, told = date_format(text)
    assert share == 1.0
    assert bool(told) == doubt
    assert parse_dates(text, form).iloc[0] == pd.Timestamp(first)


def test_what_was_learned_is_plain_data():
    columns = Columns({"code": "text"}).fit(messy())
    state = json.loads(json.dumps(columns.state(), allow_nan=False))
    again = Columns.from_state(state)
    np.testing.assert_array_equal(again.transform(messy(1)), columns.transform(messy(1)))
    assert again.columns == columns.columns
    assert (again.feature_names, again.sources) == (columns.feature_names, columns.sources)
    for name in ("medians", "scales", "kept"):
        with pytest.raises(ValueError, match=name):
            Columns.from_state({**state, name: state[name][1:]})
    learned = {**state["learned"], "city": {"hours": True}}
    with pytest.raises(ValueError, match="city"):
        Columns.from_state({**state, "learned": learned})
