"""Write ``sales.csv`` and ``new.xlsx``, the messy files of docs/tables.md, into this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TITLE = "Kundenliste, Stand Juni;;;;;;;;\n;;;;;;;;\n"


def customers(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return customers as an office in Cologne might keep them."""
    age, city = rng.integers(18, 80, n), rng.choice(["Köln", "Bonn", "Zürich"], n)
    price, news = rng.gamma(2, 600, n), rng.choice(["yes", "no", "Y", "N"], n)
    topics = ["late delivery", "friendly staff", "broken parcel", "quick answer"]
    topic = rng.choice(topics, n)
    z = 0.06 * (age - 50) + 1.5 * (city == "Köln") - 1.5 * np.isin(news, ["yes", "Y"])
    z = z + 1.2 * np.isin(topic, ["late delivery", "broken parcel"]) - 0.6
    churned = np.where(z + rng.logistic(size=n) > 0, "yes", "no")
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    swap = str.maketrans(",.", ".,")
    numbers = rng.permutation(99999)[:n]
    ages = ["" if rng.random() < 0.1 else str(a) for a in age]
    amounts = ["k.A." if rng.random() < 0.02 else f"{v:,.2f} €".translate(swap) for v in price]
    return pd.DataFrame(
        {
            "Kundennr": [f"K{i:05d}" for i in numbers],
            "Alter": ages,
            "Umsatz": amounts,
            "Ort": city,
            "Newsletter": news,
            "Kunde seit": days.strftime("%d.%m.%Y"),
            "Kommentar": [f"{t}, order {rng.integers(9999)}" for t in topic],
            "leer": "",
            "churned": churned,
        }
    )


def main() -> None:
    """Write both files."""
    rng = np.random.default_rng(4)
    table = customers(rng, 400)
    table.loc[rng.random(400) < 0.6, "churned"] = ""
    text = TITLE + table.to_csv(index=False, sep=";")
    Path("sales.csv").write_bytes(text.encode("cp1252"))
    new = customers(rng, 50).drop(columns="churned")
    new.rename(columns={"Ort": "ort"}).to_excel("new.xlsx", index=False)


if __name__ == "__main__":
    main()
