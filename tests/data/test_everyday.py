"""Raw frames: dates, numbers as text, identifiers and rows without an outcome have one reading."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfi
from dfi._data.everyday import forms_of_dates, read_everyday
from dfi._data.text import DATE_FORMS

N = 80
RNG = np.random.default_rng(0)
X = RNG.standard_normal(N)
DAYS = RNG.integers(0, 900, N)
START = dt.date(2020, 1, 1)
EPOCH = dt.date(1970, 1, 1)
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
Y = X + DAYS / 300 + RNG.standard_normal(N)
DATES = [START + dt.timedelta(days=int(day)) for day in DAYS]
SINCE = np.array([(date - EPOCH).days for date in DATES], dtype=float)

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def read(values, library="pandas"):
    """Return what becomes of a column beside another one, and the record of it."""
    frame, everyday = read_everyday(FRAMES[library]({"x": X, "c": values}), "drop")
    return frame, everyday


def column(frame):
    return np.asarray(frame["c"], dtype=float)


@pytest.mark.parametrize("library", FRAMES)
def test_dates_are_days_since_1970(library):
    ways = {
        "dates": DATES,
        "moments": [dt.datetime(d.year, d.month, d.day) for d in DATES],
        "iso": [d.isoformat() for d in DATES],
        "slashes": [d.strftime("%Y/%m/%d") for d in DATES],
        "day last": [d.strftime("%d.%m.%Y") for d in DATES],
        "two digits": [f"{d.month}/{d.day}/{d:%y}" for d in DATES],
        "at night": [d.strftime("%m/%d/%Y 12:00:00 AM") for d in DATES],
        "month first": [f"{MONTHS[d.month - 1].title()} {d.day}, {d.year}" for d in DATES],
        "weekday": [f"{d:%a}, {d.day} {MONTHS[d.month - 1]} {d.year}" for d in DATES],
        "spreadsheet": [f"{d.day}-{MONTHS[d.month - 1][:3].title()}-{d:%y}" for d in DATES],
        "named, at night": [f"{MONTHS[d.month - 1][:3]} {d.day} {d.year}, 12:00 AM" for d in DATES],
        "aware": [f"{d.isoformat()}T00:00:00+00:00" for d in DATES],
    }
    for way, values in ways.items():
        frame, everyday = read(values, library)
        assert everyday.days == ("c",), way
        np.testing.assert_allclose(column(frame), SINCE, err_msg=way)


def test_months_with_a_year_are_their_first_day():
    found, everyday = read([f"{MONTHS[d.month - 1].title()} {d.year}" for d in DATES])
    assert everyday.days == ("c",)
    np.testing.assert_allclose(column(found), [(d.replace(day=1) - EPOCH).days for d in DATES])


def test_words_beside_years_are_no_dates():
    """Labels that look like months and years, and days that no calendar has."""
    for texts in ("Spring 2019", "Maybe 3 2019", "Model 2000"):
        assert read([f"{texts} {k % 4}" for k in range(N)])[1].days == ()
    assert read([f"{k % 40}-Jun-2018" for k in range(N)])[1].days == ()


def test_gaps_among_dates_stay_gaps_and_durations_are_days():
    dated = pd.Series(DATES).astype("datetime64[ns]")
    dated[3] = pd.NaT
    frame, _ = read(dated)
    assert np.isnan(column(frame)[3])
    np.testing.assert_allclose(np.delete(column(frame), 3), np.delete(SINCE, 3))
    frame, _ = read(pd.to_timedelta(DAYS, unit="D"))
    np.testing.assert_allclose(column(frame), DAYS)


@pytest.mark.parametrize("library", FRAMES)
def test_times_of_day_and_durations_as_text_are_parts_of_a_day(library):
    minutes = RNG.integers(0, 24 * 60, N)
    ways = {
        "minutes": [f"{m // 60:02d}:{m % 60:02d}" for m in minutes],
        "seconds": [f"{m // 60}:{m % 60:02d}:00" for m in minutes],
        "times": [dt.time(int(m) // 60, int(m) % 60) for m in minutes],
    }
    for way, values in ways.items():
        frame, everyday = read(values, library)
        assert everyday.days == ("c",), way
        np.testing.assert_allclose(column(frame), minutes / 1440, err_msg=way)
    mixed = [*ways["minutes"][:-1], "7:30:00"]  # hours and minutes, or minutes and seconds?
    assert read(mixed, library)[1].days == ()


def test_times_of_day_with_another_cell_among_them_are_refused():
    times = [f"{k % 24}:{k % 60:02d}" for k in range(N)]
    frame = pd.DataFrame({"x": X, "c": [" ", "9.12", *times[2:]]})
    with pytest.raises(
        TypeError, match=r"78 of its 79 values are times of day and '9.12' is not: correct it, or"
    ):
        dfi.explain(frame, Y, "linear")
    frame["c"] = frame["c"].replace("9.12", None)
    assert dfi.explain(frame, Y, "linear").spec["everyday"]["days"] == ("c",)


def test_periods_are_days_of_their_first_moment():
    months = pd.Series(pd.period_range("2020-01", periods=N, freq="M"))
    months[3] = pd.NaT
    frame, everyday = read(months)
    since = (months.dt.start_time - pd.Timestamp(0)) / pd.Timedelta(days=1)
    np.testing.assert_array_equal(column(frame), since)
    assert everyday.spec()["days"] == ["c"]


def test_years_of_four_digits_may_span_centuries():
    found, everyday = read([f"{k % 12 + 1}/{20 + k % 9}/{1850 + 2 * k}" for k in range(N)])
    assert everyday.days == ("c",)
    assert column(found)[0] == (dt.date(1850, 1, 20) - EPOCH).days


def test_ways_to_write_dates_stop_at_the_first_text_that_is_none(monkeypatch):
    """Columns of free text are looked at too, and may have as many texts as rows."""
    asked = []
    monkeypatch.setattr("dfi._data.everyday._moment", lambda text, form: asked.append((text, form)))
    assert forms_of_dates([f"note {k}" for k in range(N)]) == {}
    assert len(asked) == len(set(asked)) == 1 + len(DATE_FORMS)


def test_dates_that_may_be_read_in_two_ways_are_refused():
    early = [dt.date(2020, 1 + k % 12, 1 + k % 11) for k in range(N)]
    for year in ("%Y", "%y"):
        frame = pd.DataFrame({"x": X, "c": [d.strftime(f"%d/%m/{year}") for d in early]})
        with pytest.raises(TypeError, match=r"Column 'c' holds dates.*day or the month may come"):
            dfi.explain(frame, Y, "linear")
    births = [f"12/{1 + k % 31}/{k % 100:02d}" for k in range(N)]
    with pytest.raises(TypeError, match=r"Column 'c' holds dates.*of either century"):
        dfi.explain(pd.DataFrame({"x": X, "c": births}), Y, "linear")


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize(
    "write", [str, " {:.3f} ".format, "${:.2f}".format, "{:.1f} %".format, "{:,.2f}".format]
)
def test_numbers_as_text_are_numbers(library, write):
    values = RNG.uniform(2e6, 5e6, N)
    texts = [write(value) for value in values]
    texts[5] = "n/a"
    frame, everyday = read(texts, library)
    assert everyday.spec() == {"numbers": ["c"]}
    read_back = column(frame)
    assert np.isnan(read_back[5])
    np.testing.assert_allclose(np.delete(read_back, 5), np.delete(values, 5), rtol=1e-6, atol=0.06)


AMOUNTS = RNG.integers(1, 9000, N) + 0.5


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize(
    ("write", "values"),
    [
        (lambda v: f"{v:,.2f}".replace(",", " ").replace(".", ",").replace(" ", "."), AMOUNTS),
        (lambda v: f"{v:.1f}".replace(".", ","), AMOUNTS),
        (lambda v: f"{v:,.0f}", np.floor(AMOUNTS)),
        (lambda v: f"${v + 1000:,.0f}", np.floor(AMOUNTS)),
        (lambda v: f"{v:.1f} m2", AMOUNTS),
        (lambda v: f"({v:.1f})", AMOUNTS),
        (lambda v: f"{v % 5:.0f}", np.floor(AMOUNTS)),
    ],
    ids=["1.234,50", "1234,5", "1,234 beside 950", "$1,234", "unit", "brackets", "few"],
)
def test_one_reading_is_enough(library, write, values):
    values = np.append(values[:-1], 950.0)
    frame, everyday = read([write(value) for value in values], library)
    assert everyday.spec() == {"numbers": ["c"]}
    truth = {"$": values + 1000, "(": -values}.get(write(7)[0], values)
    np.testing.assert_allclose(column(frame), values % 5 if write(7) == "2" else truth)


@pytest.mark.parametrize("library", FRAMES)
def test_the_unit_of_a_feature_changes_no_score(library):
    """1,500 may be 1.5: of a feature that is a thousandth, which scores alike."""
    values = np.floor(AMOUNTS) + 1000
    for unit in ("", " sqft"):
        frame, everyday = read([f"{value:,.0f}{unit}" for value in values], library)
        assert everyday.spec() == {"numbers": ["c"]}
        np.testing.assert_array_equal(column(frame), values)
    texts = [f"{value:,.0f}" for value in values]
    table = FRAMES[library]({"x": X, "y": texts})
    with pytest.raises(ValueError, match=r"thousands .* make it numbers, e\.g\. y\.str\.replace"):
        dfi.explain(table, "y", "linear")


def test_no_thousands_begin_with_zero():
    values = np.round(np.linspace(0.5, 9.5, N), 3)
    frame, everyday = read([f"{value:.3f}".replace(".", ",") for value in values])
    assert everyday.spec() == {"numbers": ["c"]}
    np.testing.assert_array_equal(column(frame), values)


@pytest.mark.parametrize(
    "texts",
    [
        [f"{k:05d}" for k in range(N)],
        [f"{1 + k},{500 + k}" if k % 2 else f"{1500 + k}" for k in range(N)],
        [f"${k}.5" if k % 2 else f"€{k}.5" for k in range(N)],
        [f"{k}.5 %" if k % 2 else f"{k}.5" for k in range(N)],
        [f"{k}.5 kg" if k % 2 else f"{k}.5 lb" for k in range(N)],
        [f"A-{k}" for k in range(N)],
    ],
    ids=["codes", "thousands or decimals", "currencies", "percent", "units", "keys"],
)
def test_text_with_two_readings_is_left_alone(texts):
    _, everyday = read(texts)
    assert "numbers" not in everyday.spec()


@pytest.mark.parametrize("library", FRAMES)
def test_numbers_with_a_word_among_them_are_classes(library):
    texts = [["4", "6", "8"][k % 3] for k in range(N - 1)] + ["rotary"]
    frame, everyday = read(texts, library)
    assert everyday.spec() == {"classes": ["c"]}
    result = dfi.explain(frame, Y, "linear", diagnose=False)
    assert result.names == ("x", "c")


@pytest.mark.parametrize("library", FRAMES)
def test_labels_are_trimmed_and_answers_spelt_alike(library):
    kinds = [["north", " north", "south ", "South"][k % 4] for k in range(N)]
    answers = [["Yes", "no", "YES", "No "][k % 4] for k in range(N)]
    table = FRAMES[library]({"x": X, "kind": kinds, "answer": answers, "y": answers})
    frame, everyday = read_everyday(table, "drop")
    assert set(frame["kind"].to_pylist() if library == "pyarrow" else frame["kind"]) == {
        "north", "south", "South",
    }  # fmt: skip
    assert everyday.spec() == {
        "labels": ["kind", "answer", "y"],
        "labels_apart": {"kind": "South, south"},
    }
    result = dfi.explain(table, "y", "linear", diagnose=False)
    assert "labels tidied: kind, answer, y" in str(result)
    assert "labels that differ only in case kept apart: kind (South, south)" in str(result)
    assert "probability of yes" in str(result)


@pytest.mark.parametrize("library", FRAMES)
def test_an_outcome_of_numbers_as_text_is_numbers(library):
    texts = [f"{value * 1000:,.2f}" for value in Y]
    texts[4], texts[9] = "", "n/a"
    table = FRAMES[library]({"x": X, "z": np.roll(X, 1), "y": texts})
    result = dfi.explain(table, "y", "linear", diagnose=False)
    kept = np.delete(np.arange(N), [4, 9])
    frame = pd.DataFrame({"x": X, "z": np.roll(X, 1)}).iloc[kept]
    plain = dfi.explain(frame, Y[kept] * 1000, "linear", diagnose=False)
    np.testing.assert_allclose(result.scores, plain.scores, rtol=1e-3)
    assert result.spec["everyday"]["numbers"] == ("y",)
    assert result.spec["everyday"]["rows_without_outcome"] == 2
    with pytest.raises(ValueError, match=r"79 different labels in 79 rows: they name rows"):
        dfi.explain(table, "y", "linear", task="classification")


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_columns_of_one_name_are_numbered(library):
    columns = [X, np.roll(X, 1), np.roll(X, 2), Y]
    names = ["x", "x", "x.1", "y"]
    if library == "pandas":
        table = pd.DataFrame(np.column_stack(columns), columns=names)
    else:
        table = pa.Table.from_arrays(list(map(pa.array, columns)), names)
    result = dfi.explain(table, "y", "linear", diagnose=False)
    assert result.names == ("x.2", "x.3", "x.1")
    assert "columns of one name numbered: x.2 (x), x.3 (x)" in str(result)
    with pytest.raises(ValueError, match="two columns of that name"):
        dfi.explain(table, "x", "linear")


def test_rows_are_counted_before_those_without_an_outcome_go():
    outcome = [float(value) if k < 60 else None for k, value in enumerate(Y)]
    half = [f"level {min(k, 39)}" for k in range(N)]  # 40 texts in 80 rows, and in 60
    table = pd.DataFrame({"rownames": np.arange(1, N + 1), "half": half, "x": X, "y": outcome})
    result = dfi.explain(table, "y", "linear", diagnose=False)
    assert result.names == ("x",)
    assert result.spec["everyday"]["left_out"] == {
        "rownames": "a different whole number in each row",
        "half": "40 different texts in 60 rows",
    }


@pytest.mark.parametrize("library", FRAMES)
def test_identifiers_are_left_out_and_named(library):
    table = FRAMES[library](
        {
            "id": [f"K{k:03d}" for k in range(N)],
            "nr": RNG.choice(10**6, N, replace=False),
            "PID": RNG.choice(10**6, N, replace=False),
            "patient_no": RNG.choice(10**6, N, replace=False),
            "line": RNG.permutation(N),
            "year": np.arange(1930, 1930 + N),
            "x": X,
            "y": Y,
        }
    )
    with pytest.warns(dfi.warnings.IdentifierWarning, match="'year'"):
        result = dfi.explain(table, "y", "linear")
    assert result.names == ("year", "x")
    assert set(result.spec["everyday"]["left_out"]) == {
        "id", "nr", "PID", "patient_no", "line",
    }  # fmt: skip
    assert "left out: id (80 different texts in 80 rows)" in str(result)
    with pytest.raises(TypeError, match="'id' has 80 different values"):
        dfi.explain(table, "y", "linear", identifiers="error")


@pytest.mark.parametrize("library", FRAMES)
def test_text_that_differs_wherever_there_is_some_is_left_out(library):
    """What counts is the rows that have a text, not those without."""
    notes = [f"seen at {k}" if k % 3 == 0 else None for k in range(N)]
    _, everyday = read(notes, library)
    assert everyday.left_out == {"c": "27 different texts in 27 rows"}
    frame = FRAMES[library]({"x": X, "c": notes})
    with pytest.raises(TypeError, match="'c' has 27 different values in 27 rows"):
        dfi.explain(frame, Y, "linear", identifiers="error")


def test_a_table_of_identifiers_alone_says_so():
    with pytest.raises(TypeError, match="looks like an identifier"):
        dfi.explain(pd.DataFrame({"c": [f"K{k}" for k in range(N)]}), Y, "linear")


@pytest.mark.parametrize("library", FRAMES)
def test_rows_without_an_outcome_are_left_out(library):
    outcome = [None if k in (3, 7) else float(value) for k, value in enumerate(Y)]
    table = FRAMES[library]({"x": X, "z": np.roll(X, 1), "w": np.ones(N), "y": outcome})
    result = dfi.explain(table, "y", "linear", sample_weight="w")
    kept = np.delete(np.arange(N), [3, 7])
    frame = pd.DataFrame({"x": X, "z": np.roll(X, 1)})
    plain = dfi.explain(frame.iloc[kept], Y[kept], "linear", sample_weight=np.ones(N - 2))
    np.testing.assert_allclose(result.scores, plain.scores, rtol=1e-12)
    assert "2 rows without an outcome left out" in str(result)
    assert "missing" not in result.spec
    with pytest.raises(ValueError, match="2 rows with missing values are left out"):
        dfi.explain(
            table, "y", "linear", sample_weight="w", cv=[(np.arange(40), np.arange(40, 80))]
        )


def test_rows_without_an_outcome_and_rows_with_gaps_are_counted_apart():
    outcome, values = Y.copy(), X.copy()
    outcome[[3, 7]] = np.nan
    values[[7, 9]] = np.nan
    table = pd.DataFrame({"x": values, "z": np.roll(X, 1), "y": outcome})
    with pytest.warns(dfi.warnings.MissingValuesWarning, match="1 of 80 rows"):
        result = dfi.explain(table, "y", "linear", missing="drop")
    assert result.spec["missing"]["rows"] == 1
    assert result.spec["everyday"]["rows_without_outcome"] == 2
    assert result.basis.n_rows == N - 3


def test_clusters_are_named_by_a_column():
    school = RNG.integers(0, 20, N)
    table = pd.DataFrame({"x": X, "z": np.roll(X, 1), "school": school, "y": Y})
    named = dfi.explain(table, "y", "linear", clusters="school")
    given = dfi.explain(table.drop(columns="school"), "y", "linear", clusters=school)
    assert named.names == ("x", "z")
    np.testing.assert_array_equal(named.se, given.se)


def test_new_rows_are_read_in_the_same_way():
    table = pd.DataFrame({"id": [f"K{k}" for k in range(N)], "day": DATES, "x": X})
    model = dfi.DFI(estimator="linear").fit(table, Y)
    raw = model.local(table.iloc[:5])
    assert list(raw.names) == ["day", "x"]
    # one text alone may be read in two ways: it is read as the table was
    texts = [f"{value:.1f}".replace(".", ",") for value in AMOUNTS]
    days = [date.strftime("%d/%m/%Y") for date in DATES]
    texts[0], days[0] = "1,500", "03/04/2020"
    worded = pd.DataFrame({"x": X, "amount": texts, "day": days})
    numbers = AMOUNTS.copy()
    numbers[0] = 1.5
    since = SINCE.copy()
    since[0] = (dt.date(2020, 4, 3) - EPOCH).days
    plain = pd.DataFrame({"x": X, "amount": numbers, "day": since})
    np.testing.assert_allclose(
        dfi.DFI(estimator="linear").fit(worded, Y).local(worded.iloc[:1]).values,
        dfi.DFI(estimator="linear").fit(plain, Y).local(plain.iloc[:1]).values,
    )
    np.testing.assert_allclose(
        raw.values, model.local(table.iloc[:5].drop(columns="id")).values, rtol=1e-12
    )


def test_fitted_models_get_the_columns_that_they_know():
    table = pd.DataFrame({"day": pd.Series(DATES).astype("datetime64[ns]"), "x": X})
    with pytest.raises(TypeError, match="'day' holds dates or times"):
        dfi.explain(table, Y, lambda rows: rows["x"], cv="prefit")


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda y: bool(y > 0), "binary"), (lambda y: float(round(y, 3)), "real")],
    ids=["booleans", "numbers"],
)
def test_outcome_of_python_objects_is_what_they_are(make, kind):
    y = pd.Series([make(value) for value in Y], dtype=object)
    result = dfi.explain(pd.DataFrame({"x": X}), y, "linear", cv=2, diagnose=False)
    assert result.spec["outcome"]["kind"] == kind
    plain = dfi.explain(pd.DataFrame({"x": X}), y.to_list(), "linear", cv=2, diagnose=False)
    np.testing.assert_array_equal(result.scores, plain.scores)


@pytest.mark.parametrize("library", FRAMES)
def test_a_table_of_the_outcome_alone_has_no_feature(library):
    with pytest.raises(ValueError, match="X has no column besides 'y', 'w'"):
        dfi.explain(FRAMES[library]({"y": Y, "w": X}), "y", sample_weight="w")
