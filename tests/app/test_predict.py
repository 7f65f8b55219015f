"""``proxyprox run TABLE --target`` and ``proxyprox predict``: from messy files to predictions."""

import csv
import datetime
import importlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyprox_app.cli import app
from proxyprox_app.columns import Columns
from proxyprox_app.model import FittedGLM, TableModel
from proxyprox_app.tables import load_cells, read_table

pd = pytest.importorskip("pandas")
ROWS = 90


def table(seed=0, rows=ROWS):
    """Return clean columns and a label that depends on them; a third of the labels is missing."""
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 80, rows), rng.choice(["Köln", "Bonn", "Zürich"], rows)
    price, news = rng.gamma(2.0, 600.0, rows), rng.choice(["yes", "no", "Y", "N"], rows)
    z = 0.08 * (age - 50) + 2.0 * (city == "Köln") - 1.5 * np.isin(news, ["yes", "Y"])
    label = np.where(z + rng.logistic(size=rows) > 0, "left", "stays").astype(object)
    label[rng.random(rows) < 1 / 3] = None
    days = [
        datetime.datetime(2023, 1, 1) + datetime.timedelta(int(d))
        for d in rng.integers(0, 700, rows)
    ]
    return pd.DataFrame(
        {"Kunde": [f"K{i:04d}" for i in range(rows)], "Alter": age, "Umsatz": price, "Ort": city,
         "News": news, "Seit": days, "churned": label}
    )  # fmt: skip


def german(frame, path):
    """Write semicolons, decimal commas, day.month.year, Windows-1252 and trailing blanks."""
    lines = [";".join(frame)]
    for i, row in enumerate(frame.itertuples(index=False)):
        money = f"{row.Umsatz:,.2f}".translate(str.maketrans(",.", ".,")) + " €"
        age = "" if i % 9 == 4 else str(row.Alter)
        label = row.churned + " " * (i % 3) if isinstance(row.churned, str) else ""
        day = row.Seit.strftime("%d.%m.%Y")
        lines.append(";".join([row.Kunde, age, money, row.Ort, row.News, day, label]))
    path.write_bytes("\n".join(lines).encode("cp1252"))
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with a model, fitted to a messy file, and what was said about it."""
    folder = tmp_path_factory.mktemp("fitted")
    file = german(table(), folder / "sales.csv")
    call = ["run", str(file), "--target", "churned", "--output", str(folder / "out"), "--json"]
    result = CliRunner().invoke(app, call, prog_name="proxyprox")
    assert result.exit_code == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_a_messy_file_is_fitted_and_told_about(fitted):
    folder, done = fitted
    names = [score["model"] for score in done["scores"]]
    assert sorted(names) == ["base-rate", "erm", "proxyprox", "scikit-learn"]
    losses = [score["loss"][0] for score in done["scores"]]
    assert losses == sorted(losses)
    assert done["chosen"] == names[0] != "base-rate"
    for score in done["scores"]:
        value, low, high = score["loss"]
        assert low <= value <= high
    # Whatever is chosen as the best of several is a little worse than it looks.
    assert done["expected"][0] > losses[0]
    assert done["labels"] + done["unlabelled"] == ROWS
    found = {row["name"]: row["coefficient"] for row in done["coefficients"]}
    assert found["Ort = Köln"] < found["Ort = Bonn"]  # of the second class, stays
    assert found["News = yes"] > 0
    assert {column["name"]: column["kind"] for column in done["columns"]}["Kunde"] == "drop"
    written = {path.name for path in (folder / "out").iterdir() if not path.name.startswith(".")}
    assert written == {"model.json", "coefficients.csv", "summary.json"}
    lines = (folder / "out" / "coefficients.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("name,column,coefficient")
    assert len(lines) == len(done["coefficients"]) + 1


def test_predictions_of_another_file(fitted, invoke, tmp_path):
    folder, _ = fitted
    new = table(seed=1, rows=40)
    german(new, tmp_path / "new.csv")
    # The same rows in other formats, in other order, with other names for nothing.
    new[new.columns[::-1]].assign(more=1).to_excel(tmp_path / "new.xlsx", index=False)
    new.to_parquet(tmp_path / "new.parquet")
    found = {}
    for name in ("new.xlsx", "new.parquet"):
        output = tmp_path / f"{name}.out.csv"
        result = invoke("predict", folder / "out", tmp_path / name, "--output", output)
        assert "rows have a label" in result.stderr
        found[name] = list(csv.DictReader(output.read_text("utf-8").splitlines()))
    chances = [[float(row["P(churned = left)"]) for row in rows] for rows in found.values()]
    np.testing.assert_allclose(*chances, rtol=1e-9)
    first = found["new.parquet"][0]
    assert list(first)[:3] == ["row", "Kunde", "churned"]
    assert sum(float(first[f"P(churned = {c})"]) for c in ("left", "stays")) == pytest.approx(1)
    # Two ages are empty in the German file; every other row is predicted the same.
    printed = invoke("predict", folder / "out" / "model.json", tmp_path / "new.csv")
    rows = list(csv.DictReader(printed.stdout.splitlines()))
    for i in (0, 1, 2, 3, 5):
        want = float(found["new.parquet"][i]["P(churned = left)"])
        assert float(rows[i]["P(churned = left)"]) == pytest.approx(want, abs=1e-4)


def test_what_is_wrong_with_new_rows_is_named(fitted, invoke, tmp_path):
    folder, _ = fitted
    new = table(seed=2, rows=12)
    less = tmp_path / "less.csv"
    new.drop(columns=["Alter", "Ort"]).to_csv(less, index=False)
    result = invoke("predict", folder / "out", less, "--json", code=2)
    assert "'Alter', 'Ort'" in result.stderr
    result = invoke("predict", folder / "out", less, "--allow-missing", "--json")
    assert len(json.loads(result.stdout)["predictions"]) == 12
    odd = tmp_path / "odd.csv"
    new.assign(Ort="=cmd()", Kunde="=1+1").to_csv(odd, index=False)
    result = invoke("predict", folder / "out", odd)
    assert "Ort: 12 cells such as '=cmd()'" in result.stderr
    assert "1,'=1+1," in result.stdout, "no spreadsheet takes it for a formula"
    same = invoke("predict", folder / "out", folder / "sales.csv", "--json")
    assert json.loads(same.stdout)["score"] is None, "rows of the fit say nothing"
    result = invoke("predict", folder / "out", odd, "--output", odd, code=2)
    assert "replace" in result.stderr


def test_a_dry_run_says_everything_and_fits_nothing(invoke, tmp_path):
    frame = table().assign(
        empty=None, same=1, leak=lambda f: f["churned"].map({"left": 1, "stays": 2})
    )
    frame.columns = [*frame.columns[:-3], "Alter", "same", "leak"]  # a second Alter
    file = tmp_path / "rows.csv"
    frame.to_csv(file, index=False)
    call = ("run", file, "--target", "churned", "--dry-run", "--output", tmp_path / "out")
    result = invoke(*call)
    assert not (tmp_path / "out").exists()
    told = " ".join(result.stderr.split())
    for words in ("Alter.2: a second column", "Alter.2: every cell is empty", "same: the same",
                  "leak: tells the label", "Kunde: another value in every row"):  # fmt: skip
        assert words in told
    assert "Seit date" in " ".join(result.stdout.split())
    shown = json.loads(invoke(*call, "--as", "Ort=text", "--as", "leak=number", "--json").stdout)
    kinds = {column["name"]: column["kind"] for column in shown["columns"]}
    assert (kinds["Ort"], kinds["leak"]) == ("text", "number")
    assert shown["labels"] + shown["unlabelled"] == ROWS


def test_mistakes_of_a_table_are_told_at_once(invoke, tmp_path):
    kinds = ("--as", "Ort=number", "--as", "x=drop")
    for change, options, words in (
        ({"churned": None}, ("--target", "churned"), ["no label"]),
        ({"churned": "left"}, ("--target", "churned", *kinds),
         ["one class, 'left'", "Ort: no cell is a number", "no column 'x'"]),
        ({}, ("--target", "Kunde"), ["90 classes"]),
    ):  # fmt: skip
        table().assign(**change).to_csv(tmp_path / "rows.csv", index=False)
        result = invoke(
            "run", tmp_path / "rows.csv", *options, "--output", tmp_path / "out", code=2
        )
        for each in words:
            assert each in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_regression_from_numbers_alone(invoke, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["price"] = [f"${100 + 10 * v:,.2f}" for v in X[:, 0] + 0.3 * rng.normal(size=80)]
    frame.loc[60:, "price"] = "n/a"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    result = invoke("run", tmp_path / "rows.csv", "--target", "price", "--model", "proxyprox",
                    "--output", tmp_path / "out")  # fmt: skip
    assert "RMSE" in result.stdout
    done = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert done["chosen"] == "proxyprox"
    a = next(row for row in done["coefficients"] if row["name"] == "a")
    assert a["low"] < 10 < a["high"]
    assert done["scores"][0]["second"][0] > 0.8
    predicted = invoke("predict", tmp_path / "out", tmp_path / "rows.csv").stdout.splitlines()
    assert predicted[0] == "row,price"
    assert len(predicted) == 81


# -- identifiers, new categories, codes ------------------------------------------------------------


def small_model(frame, folder, kinds=None):
    """Write a model of a table without the comparison of models; return it."""
    columns = Columns(kinds).fit(frame)
    coef = np.linspace(-1.0, 1.0, len(columns.feature_names))[None]
    kept = TableModel(
        columns, FittedGLM("linear", [], coef, np.array([0.5])), "y", "regression", {}
    )
    kept.save(folder / "model.json")
    return kept


IDENTIFIERS = {
    "plain": ([str(10000 + 7 * i) for i in range(20)], int),
    "zeros": ([f"{i:05d}" for i in range(20)], str),
    "long": ([str(9007199254740993 + i) for i in range(20)], int),
    "codes": ([f"{i}E{i + 10}" for i in range(20)], str),
    "spaced": ([f"K {i}" for i in range(20)], str),
    "gap": (["", *(str(500 + i) for i in range(19))], int),
}


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_identifiers_come_back_as_they_were(invoke, tmp_path, ending):
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=20)})
    for name, (cells, kind) in IDENTIFIERS.items():
        values = [kind(cell) if cell else None for cell in cells]
        frame[f"{name}_id"] = pd.Series(values, dtype="Int64" if kind is int else object)
    file = tmp_path / f"rows.{ending}"
    if ending == "csv":
        frame.to_csv(file, index=False)
    elif ending == "parquet":
        # As other programs write it: nothing in it is for pandas.
        arrow = pytest.importorskip("pyarrow")
        plain = arrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        importlib.import_module("pyarrow.parquet").write_table(plain, file)
    else:
        # Excel's own numbers have 15 digits: longer ones are text there.
        frame["long_id"] = frame["long_id"].astype(str)
        frame.astype(object).where(frame.notna(), None).to_excel(file, index=False)
    small_model(read_table(file), tmp_path)
    invoke("predict", tmp_path, file, "--output", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text("utf-8").splitlines()))
    for name, (cells, _) in IDENTIFIERS.items():
        assert [row[f"{name}_id"] for row in rows] == cells
    shown = json.loads(invoke("predict", tmp_path, file, "--json").stdout)["predictions"]
    assert [row["long_id"] for row in shown] == IDENTIFIERS["long"][0]


def test_new_categories_have_no_effect_and_are_counted(invoke, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=30), "city": rng.choice(["Rome", "Bonn", "Oslo"], 30),
        "paid": rng.choice(["yes", "no"], 30), "size": rng.choice(["S", "L", None], 30),
    })  # fmt: skip
    kept = small_model(frame, tmp_path)
    new = frame.iloc[:4].assign(city=["Paris", "Rome", "Kiel", "Bonn"], size=["XL", "S", None, "L"])
    new["paid"] = ["yes", "maybe", "no", None]
    X, _ = kept.columns.transform_with_findings(new)
    source = np.array(kept.columns.sources)
    zero = {name: (X[:, source == name] == 0).all(axis=1).tolist() for name in new}
    assert zero["city"] == [True, False, True, False]
    assert zero["paid"] == [False, True, False, True]
    assert zero["size"] == [True, False, False, False], "a gap is a value of its own here"
    # Any other unseen value gives the same prediction, and the mean of both is halfway.
    first = kept.predict(new.assign(paid="maybe"))[0]["y"]
    assert (kept.predict(new.assign(paid="never"))[0]["y"] == first).all()
    both = [kept.predict(new.assign(paid=answer))[0]["y"] for answer in ("yes", "no")]
    np.testing.assert_allclose(first, (both[0] + both[1]) / 2)
    new.to_csv(tmp_path / "new.csv", index=False)
    result = invoke("predict", tmp_path, tmp_path / "new.csv")
    told = " ".join(result.stderr.split())
    assert "city: 2 cells such as 'Paris': not among the values learned" in told
    assert "size: 'XL' (row 1): not among" in told
    assert "4 of 4 rows hold values that were not learned, in city, paid, size" in told


CODES = {
    "icd": ["E119", "I10", "E780", "4010"], "part": ["E400", "4E12", "1200"],
    "hex": ["12E5", "1E10", "9A3F"], "prefixed": ["0x1F", "0x2E"], "article": ["00123", "40123"],
    "odd": ["INF", "NaN-1", "1d5"], "grouped": ["1_000", "2_000"], "arabic": ["١٢", "٣"],
    "alone": ["E", "e5", "5e", "-E1", "E+1"], "wide": ["1234", "12E5", "5678"],
}  # fmt: skip
NUMBERS = {
    "science": ["1.5E-3", "2E5", "3e+4"], "short": ["2E5", "3E6"], "signed": ["+5", "-7", "+9"],
    "stray": ["7"] * 28 + ["8", "n.a.?"],
}  # fmt: skip


def test_codes_are_text_and_numbers_stay_numbers(invoke, tmp_path):
    cells = {name: [v[i % len(v)] for i in range(30)] for name, v in {**CODES, **NUMBERS}.items()}
    frame = pd.DataFrame({**cells, "y": np.random.default_rng(0).integers(0, 2, 30)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    call = ("run", tmp_path / "rows.csv", "--target", "y", "--dry-run")
    result = invoke(*call, "--json")
    shown = json.loads(result.stdout)
    kinds = {column["name"]: column["kind"] for column in shown["columns"]}
    assert {kinds[name] for name in CODES} == {"category"}
    assert {kinds[name] for name in NUMBERS} == {"number"}
    told = {finding["column"]: finding["text"] for finding in shown["findings"]}
    assert "'00123', with leading zeros" in told["article"]
    for name in ("icd", "part", "hex", "wide"):
        assert "codes such as" in told[name]
    assert "'2E5' and the like are read as numbers" in told["short"]
    assert "science" not in told


# -- decimal marks, names and blanks ---------------------------------------------------------------


def marked_model(folder, text, target="y"):
    """Write a model of a CSV file that predicts its number `x` as it is; return it."""
    (folder / "fit.csv").write_text(text)
    frame, _, decimal = load_cells(folder / "fit.csv").parse()
    columns = Columns(decimal=decimal).plan(frame, ignore=[target]).fit(frame)
    at = columns.feature_names.index("x")
    coef = np.zeros((1, len(columns.feature_names)))
    coef[0, at] = columns.scales[columns.kept][at]
    intercept = columns.centres[columns.kept][[at]]
    glm = FittedGLM("linear", [], coef, intercept)
    kept = TableModel(columns, glm, target, "regression", {})
    kept.save(folder / "model.json")
    return kept


def predicted(invoke, folder, text, name="new.csv"):
    """Return what is predicted for a file, its score and its notes."""
    (folder / name).write_text(text)
    result = invoke("predict", folder, folder / name, "--json")
    shown = json.loads(result.stdout)
    notes = [f"{each['column']}: {each['text']}" for each in shown["findings"]]
    return [row["y"] for row in shown["predictions"]], shown["score"], notes


GERMAN = ["1,5", "2,25", "1,234", "3,125", "12,75"]


def test_another_mark_in_a_new_file_is_told(invoke, tmp_path):
    # 1.000 is a thousand because other columns have decimal commas.
    rows = [f"{1000 + i:,}".replace(",", ".") + f"\t{i},5\t{i},25" for i in range(30)]
    marked_model(tmp_path, "\n".join(["x\tz\ty", *rows, "k.A.\t1,5\t2,5"]))
    assert predicted(invoke, tmp_path, "x\tz\n1.234\t7\n")[0] == pytest.approx([1234])
    rows = [f"{cell}\t{i},5\t{i},25" for i, cell in enumerate(GERMAN * 5)]
    marked_model(tmp_path, "\n".join(["x\tz\ty", *rows]))
    told = ": decimals are behind '.' here, unlike in the file of the fit."
    lost = "x: '12.75' (row 1): no number, so missing."
    for text, values, notes in (
        ("x\tz\n12.75\t1\n1.234\t2\n", [12.75, 1.234], [told]),
        ("x\tz\n1.234\t2.5\n", [1.234], [told]),
        # One of several cells: it is missing, not something else.
        ("x\tz\n1,5\t1\n2,5\t2\n3,5\t2\n", [1.5, 2.5, 3.5], []),
        ("x\tz\n12.75\t1\n1,5\t2\n2,5\t2\n", None, [lost]),
    ):
        found, _, got = predicted(invoke, tmp_path, text)
        assert got == notes
        assert values is None or found == pytest.approx(values)
    # Numbers that are no text have no mark.
    for cells in ([1.234, 2.5], [1.234, "2,5"]):
        frame = pd.DataFrame({"x": pd.Series(cells, dtype=object), "z": 1.5})
        frame.to_excel(tmp_path / "new.xlsx", index=False)
        shown = json.loads(invoke("predict", tmp_path, tmp_path / "new.xlsx", "--json").stdout)
        assert [row["y"] for row in shown["predictions"]] == pytest.approx([1.234, 2.5])
        assert shown["findings"] == []
