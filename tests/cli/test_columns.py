"""Everyday tables: other separators, marked numbers, dates, many levels."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dfi
from dfi.cli.columns import block_groups, read_number
from dfi.cli.delimited import Spelling
from dfi.cli.reading import read_file

LINEAR = ("--model", "linear", "--folds", "3")


def sums(run, *arguments):
    done = run("explain", "data.csv", "-y", "y", "-f", *LINEAR, "--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def one_sentence(done, *parts):
    assert done.exit_code == 4, done.output
    last = done.stderr.splitlines()[-1]
    assert last.startswith("dfi: ")
    for part in parts:
        assert part in last


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators_are_found(run, frame, mark):
    frame.select("a", "b", "y").write_csv("data.csv")
    expected = sums(run)["features"]
    frame.select("a", "b", "y").write_csv("data.csv", separator=mark)
    assert sums(run)["features"] == expected


def test_a_header_with_commas_inside_of_names_is_split_by_what_all_lines_agree_on(place):
    (place / "t.csv").write_text('"size, cm";weight\n1,5;2\n3,5;4\n')
    assert read_file("t.csv").columns == ["size, cm", "weight"]
    (place / "u.csv").write_text("a;b,c\n1,2\n3,4\n")
    assert read_file("u.csv").columns == ["a;b", "c"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",a,y\n0,2,3\n", ["Unnamed: 0", "a", "y"]),
        ("a,a,a.1\n1,2,3\n", ["a.2", "a.3", "a.1"]),
        ('sep=;\n"a\nb";"a\nb";;y\n1;2;3;4\n', ["a\nb.1", "a\nb.2", "Unnamed: 2", "y"]),
    ],
)
@pytest.mark.filterwarnings("ignore:names that appear more than once")
def test_columns_without_a_name_of_their_own_are_numbered(place, text, names):
    (place / "t.csv").write_text(text)
    assert read_file("t.csv").columns == names


def test_row_labels_that_pandas_wrote_are_left_out(run, frame):
    frame.select("a", "b", "y").write_csv("data.csv")
    expected = sums(run)["features"]
    frame.select("a", "b", "y").to_pandas().to_csv("data.csv")
    assert sums(run)["features"] == expected


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("17 %", ".", 17), ("$17", ".", 17), ("-$1,234.50", ".", -1234.5), ("($17)", ".", -17),
        ("17,000", ".", 17000), ("1'234'567", ".", 1234567), ("1 234,5 €", ",", 1234.5),
        ("1.234,5", ",", 1234.5), ("−3", ".", -3), ("1e3", ".", 1000), (".5", ".", 0.5),
        ("1,23", ".", None), ("17 cm", ".", None), ("", ".", None), ("(17", ".", None),
        ("1,234,5", ".", None), ("EUR 5", ".", 5), ("12-34", ".", None),
    ],
)  # fmt: skip
def test_numbers_with_marks(text, decimal, value):
    assert read_number(text, decimal) == value


def marked(frame, name, texts):
    frame.select("a", "y").with_columns(pl.Series(name, texts)).write_csv("data.csv")


def test_marked_numbers_are_refused_with_the_option_that_reads_them(run, frame):
    b = (100 * frame["b"]).round().cast(int).to_list()
    frame.select("a", "y").with_columns(money=pl.Series(b)).write_csv("data.csv")
    expected = sums(run)["features"]
    marked(frame, "money", [f"${value:,} " for value in b])
    assert sums(run)["features"] == expected
    marked(frame, "money", [f"{50000 + k:,}" if k % 2 else f"{50000 + k}" for k in b])
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", *LINEAR),
        "column 'money' has texts such as", "--numbers marked", "--numbers text",
    )  # fmt: skip
    got = sums(run, "--numbers", "marked")["features"]
    assert [row["name"] for row in got] == [row["name"] for row in expected]
    np.testing.assert_allclose(
        [row["score"] for row in got], [row["score"] for row in expected], rtol=1e-6
    )
    marked(frame, "money", ["17 %", "18 %"] * 45)
    assert run("explain", "data.csv", "-y", "y", "-f", *LINEAR, "--numbers", "text").exit_code == 0
    marked(frame, "money", ["17 %", "18"] * 45)
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", *LINEAR, "--numbers", "marked"),
        "column 'money' has '17 %' and '18'",
        "have different scales",
    )


def test_decimal_commas_are_read_and_told(run, frame):
    small = frame.select("a", "b", "y").with_columns(pl.all().round(3))
    small.write_csv("data.csv")
    expected = sums(run)["features"]
    text = small.write_csv(separator=";").replace(".", ",")
    Path("data.csv").write_text(text)
    assert sums(run)["features"] == expected
    assert sums(run, "--decimal", ",")["features"] == expected
    done = run("explain", "data.csv", "-y", "y", "-f", *LINEAR)
    assert "read as numbers: a, b, y" in done.stderr


def test_thousands_or_decimals_are_not_guessed_where_they_change_scores(run, frame):
    marked(frame, "n", ["17,000", "18,500"] * 45)
    one_sentence(
        run("explain", "data.csv", "-y", "n", "-f"),
        "texts such as '17,000'", "--numbers marked", "--decimal ','",
    )  # fmt: skip
    done = run("explain", "data.csv", "-y", "y", "-f", *LINEAR)
    assert "read as numbers: n" in done.stderr


def test_numbers_with_a_word_among_them_are_classes(run, frame):
    marked(frame, "cylinders", [*["4", "6", "8"] * 29, "4", "6", "rotary"])
    done = run("explain", "data.csv", "-y", "y", "-f", *LINEAR)
    assert done.exit_code == 0, done.stderr
    assert "read as classes: cylinders" in done.stderr


def test_points_are_not_decimal_where_commas_are(place):
    (place / "t.csv").write_text("a;b\n1.500;2,5\n2.300;3,5\n")
    frame = read_file("t.csv", spelling=Spelling(decimal=","))
    assert frame["a"].to_list() == ["1.500", "2.300"]


def test_spaces_around_numbers_do_not_make_them_texts(run, frame):
    frame.select("a", "b", "y").write_csv("data.csv")
    expected = sums(run)["features"]
    text = Path("data.csv").read_text().replace(",", ", ").replace("a, b, y", "a,b,y")
    Path("data.csv").write_text(text)
    assert sums(run)["features"] == expected


@pytest.fixture
def dated(frame):
    start = dt.date(2019, 11, 3)
    days = [start + dt.timedelta(days=11 * k) for k in range(90)]
    return frame.select("a", "y").with_columns(when=pl.Series(days))


def test_dates_are_days_unless_the_option_says_otherwise(run, dated):
    dated.write_csv("data.csv")
    dated.with_columns(pl.col("when").cast(pl.Int32)).write_csv("days.csv")
    expected = run("explain", "days.csv", "-y", "y", *LINEAR, "--json")
    days = json.loads(expected.stdout)["features"]
    assert sums(run, "--dates", "days")["features"] == sums(run)["features"] == days
    assert [row["name"] for row in sums(run, "--dates", "drop")["features"]] == ["a"]


def test_parts_of_a_date_are_one_unit(run, dated):
    dated.write_csv("data.csv")
    found = sums(run, "--dates", "parts", "--repeats", "1")
    assert sorted(row["name"] for row in found["features"]) == ["a", "when"]
    when = dated["when"].dt
    X = pl.DataFrame(
        {
            "a": dated["a"],
            "when year": when.year(),
            "when month": when.month().cast(pl.Int32),
            "when day": when.day().cast(pl.Int32),
            "when weekday": when.weekday().cast(pl.Int32),
        }
    )
    groups = {"a": ["a"], "when": X.columns[1:]}
    result = dfi.explain(
        X, dated["y"], "linear", cv=3, feature_groups=groups, units="groups", n_repeats=1
    )
    scores = dict(zip(result.names, result.scores, strict=True))
    for row in found["features"]:
        assert row["score"] == pytest.approx(scores[row["name"]])


def test_parts_beside_groups(run, dated, place):
    dated.write_csv("data.csv")
    (place / "g.json").write_text('{"both": ["a", "when"]}')
    one_sentence(
        run(
            "explain",
            "data.csv",
            "-y",
            "y",
            "-f",
            *LINEAR,
            "--dates",
            "parts",
            "--groups",
            "g.json",
        ),
        "--dates days, or --units groups",
    )
    found = sums(run, "--dates", "parts", "--groups", "g.json", "--units", "groups")
    assert [row["name"] for row in found["features"]] == ["both"]
    assert block_groups(["x", "t h", "t m", "z"], {"t": ["t h", "t m"]}) == {
        "x": ["x"], "t": ["t h", "t m"], "z": ["z"],
    }  # fmt: skip


def test_a_part_never_takes_the_place_of_a_column(run, dated):
    dated.with_columns(pl.lit(1.5).alias("when year")).write_csv("data.csv")
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", "--dates", "parts"),
        "would make a column 'when year'",
    )


def test_times_durations_and_gaps(place, run, frame):
    n = 90
    stamp = [None if k % 9 == 0 else dt.datetime(2020, 1, 1) + dt.timedelta(hours=7 * k)
             for k in range(n)]  # fmt: skip
    clock = [dt.time(k % 24, 30) for k in range(n)]
    frame.select("a", "y").with_columns(
        stamp=pl.Series(stamp), clock=pl.Series(clock),
        span=pl.Series([dt.timedelta(hours=k % 50) for k in range(n)]),
    ).write_parquet("data.parquet")  # fmt: skip
    for how in ("days", "parts"):
        done = run("explain", "data.parquet", "-y", "y", *LINEAR, "--dates", how, "-o", how)
        assert done.exit_code == 0, done.output
    table = pl.read_csv("days/importance.csv")
    assert set(table["feature"]) == {"a", "stamp", "clock", "span"}


def test_texts_that_are_dates_are_read_where_they_can_be_read_in_one_way(run, dated):
    dated.with_columns(pl.col("when").dt.strftime("%d.%m.%Y")).write_csv("data.csv")
    expected = sums(run, "--dates", "days")
    dated.write_csv("data.csv")
    assert sums(run, "--dates", "days")["features"] == expected["features"]
    early = [f"0{1 + k % 9}/0{1 + k % 7}/2020" for k in range(90)]
    dated.with_columns(when=pl.Series(early)).write_csv("data.csv")
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", "--dates", "days"),
        "may be read as MM/DD/YYYY, DD/MM/YYYY",
    )
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", "--time", "when"),
        "column 'when' has dates such as '01/01/2020'",
    )
    assert run("explain", "data.csv", "-y", "y", *LINEAR, "-f", "--drop", "when").exit_code == 0


def test_many_levels_are_pooled_and_said(run, frame, place):
    rng = np.random.default_rng(0)
    cities = [f"c{k}" for k in np.minimum(rng.geometric(0.1, 90), 40)]
    frame.select("a", "y").with_columns(city=pl.Series(cities)).write_csv("data.csv")
    found = sums(run, "--max-levels", "5")
    (said,) = [text for text in found["warnings"] if "city" in text]
    assert "the 4 most frequent are kept" in said
    assert "'(other)'" in said
    counts = pl.Series(cities).value_counts(sort=True)
    assert f"of {counts.height} levels" in said
    frame.select("a", "y").with_columns(
        city=pl.Series(["(other)"] * 60 + [f"c{k}" for k in range(30)])
    ).write_csv("data.csv")
    one_sentence(
        run("explain", "data.csv", "-y", "y", "-f", "--max-levels", "5"), "one of that name already"
    )


def test_an_identifier_can_be_kept_by_its_frequent_values(run, frame):
    frame.select("a", "y").with_columns(name=pl.Series([f"n{k}" for k in range(90)])).write_csv(
        "data.csv"
    )
    assert [row["name"] for row in sums(run)["features"]] == ["a"]
    assert [row["name"] for row in sums(run, "--max-levels", "4")["features"]] == ["a", "name"]


@pytest.mark.parametrize(
    "options", [("--dates", "parts"), ("--numbers", "marked"), ("--max-levels", "4")]
)
def test_what_needs_all_values_is_refused_of_tables_in_parts(run, dated, place, options):
    (place / "parts").mkdir()
    dated.write_parquet(place / "parts" / "a.parquet")
    one_sentence(
        run("explain", "parts", "-y", "y", *LINEAR, *options), options[0], "is read in parts"
    )


def test_days_of_tables_in_parts(run, dated, place):
    (place / "parts").mkdir()
    dated.write_parquet(place / "parts" / "a.parquet")
    assert run("explain", "parts", "-y", "y", *LINEAR, "--dates", "days").exit_code == 0
