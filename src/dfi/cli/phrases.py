"""The library's messages in the words of the command line: the one place that translates.

The library speaks of parameters (``task='classification'``) and of what a caller holds (``X``,
``y``); who types a command has options, a table and a target.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = {
    "estimator": "--model",
    "transport": "--transport",
    "transports": "--transports",
    "epsilon": "--epsilon",
    "epsilons": "--epsilons",
    "components": "--components",
    "groups": "--groups",
    "units": "--units",
    "cv": "--folds",
    "n_repeats": "--repeats",
    "form": "--form",
    "explain_rows": "--explain-rows",
    "max_seconds": "--max-seconds",
    "keep_rows": "--keep-rows",
    "fit_rows": "--fit-rows",
    "sample_weight": "--weights",
    "frequency_weight": "--frequency-weights",
    "cv_groups": "--cv-groups",
    "missing": "--missing",
    "loss": "--loss",
    "task": "--task",
    "positive": "--positive",
    "level": "--level",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "methods": "--methods",
}
"""The option of each parameter that has one."""

UNMISTAKABLE = tuple(name for name in OPTIONS if "_" in name)
"""Parameters whose bare name is no English word."""

_TRANSPORT_CLASSES = {
    "Gaussian": "gaussian",
    "GaussianCopula": "copula",
    "EntropicOT": "entropic",
    "KnotheRosenblatt": "knothe-rosenblatt",
    "Semicontinuous": "semicontinuous",
}

_POOL = "Pool its rare values with --max-levels, or leave it out with --drop"
_GROUPS = "give a table of features and groups, or a JSON object of groups and their features"

_VALUE = r"""(?:'([^']*)'|"([^"]*)"|(\.\.\.)|\[\.\.\.\]|\[([^\]]*)\]|([\w.+-]*\w))"""

Rule = tuple[re.Pattern[str], "str | Callable[[re.Match[str]], str]"]


def _option(found: re.Match[str]) -> str:
    name, values = found[1], [value for value in found.groups()[1:] if value is not None]
    if name not in OPTIONS:
        return found[0]
    value = values[0] if values else "..."
    if value == "True":
        return OPTIONS[name]
    if name == "explain_rows" and value == "None":
        value = "all"
    if "'" in value or ", " in value:
        value = ",".join(part.strip(" '\"") for part in value.split(","))
    if name == "cv" and value == "prefit":
        return "a fitted --model"
    return f"{OPTIONS[name]} {value}"


def _transport(found: re.Match[str]) -> str:
    name = _TRANSPORT_CLASSES.get(found[1], found[1].lower())
    epsilon = re.fullmatch(r"epsilon=([\d.]+)", found[2])
    return f"--transport {name}" + (f" --epsilon {epsilon[1]}" if epsilon else "")


_WHOLE: tuple[Rule, ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # whole pieces of advice that are code
        (
            r"dfi\.sensitivity\(X, y, transports=\[(?:\.\.\.|[^\]]*)\]\)",
            "dfi sensitivity DATA --target NAME --transports gaussian,copula",
        ),
        (
            r"result\.group\(groups, how='joint'\) or dfi\.explain\(\.\.\., groups=\.\.\., "
            r"units='groups'\) scores it as one",
            "--units groups scores it as one",
        ),
        (
            r" and add up columns with result\.group\(groups, how='sum'\)",
            ", which adds up the columns of a group",
        ),
        (
            r"Put the rare ones into one level, e\.g\. rare = .*?'other'\), or drop the column",
            "Put the rare ones into one level with --max-levels 50, or leave the column out with "
            "--drop",
        ),
        (
            r"Drop it, or group its values into fewer levels(?:, such as .*?\.str\[:2\])?",
            "Leave it out with --drop, or keep its most frequent values with --max-levels",
        ),
        (
            r"Impute them, e\.g\. with sklearn\.impute\.SimpleImputer, or drop those rows or "
            r"columns; missing='unit' scores a column's value and missingness together",
            "Leave such rows out with --missing drop, columns with --drop; --missing unit scores "
            "a column's value and missingness together",
        ),
        (
            r"Impute them, or drop those rows or columns; missing='unit'",
            "Leave such rows out with --missing drop, columns with --drop; missing='unit'",
        ),
        (
            r"; transport=dfi\.transports\.\w+\(covariance='factor'\) lessens the bias of the "
            r"transport where few directions are shared by many columns, not that of the "
            r"regression",
            "",
        ),
        (
            r", e\.g\. those that sklearn\.feature_selection\.SelectKBest keeps, or the components "
            r"of sklearn\.decomposition\.PCA",
            "; leave others out with --drop",
        ),
        (
            r"; pass a model whose line means are exact \(trees by themselves, not wrapped in a "
            r"function\), or raise the nodes of dfi\.Quadrature",
            "; a --model of trees has exact line means",
        ),
        (
            r"raise the nodes of dfi\.Quadrature, or leave integration='auto' to have them chosen",
            "a --model of trees has exact line means",
        ),
        (r"; ask for more orders \(n_permutations\) or for exact=True \(up to \d+ units\)", ""),
        (r"; group features, or raise n_permutations, for more precision", "; group features"),
        (r", or keep some rows with moments\(sample=\.\.\.\)", ""),
        (r"pass groups=\{'name': \['column', \.\.\.\], \.\.\.\}", "name them with --groups"),
        (
            r"explain_rows and max_seconds take a random sample of rows that are independent, and "
            r"these depend on each other \(cv_groups, or folds along time\)",
            "--explain-rows and --max-seconds take a random sample of rows that are independent, "
            "and these depend on each other (--cv-groups, --time)",
        ),
        (r"\(here the default\)", "(the default here)"),
        (r"Use more rows \(eight do for cv=2\)", "Use more rows (eight do for --folds 2)"),
        (
            r"To explain a fitted model as it is, use cv=[\"']prefit[\"']",
            "To explain a fitted model as it is, give its file as --model",
        ),
        (
            r"a number of folds, a scikit-learn splitter or a list of \(train, test\) row numbers",
            "a number",
        ),
        (r"a number of folds, cv=5, or use", "--folds 5, or"),
        (r"a number of folds or a splitter(?: without repeats)?", "a number of --folds"),
        (r", or pass X as an array or a data frame, of some of the rows if they are too many", ""),
        (r", or pass X as a frame", ", or give one file of some of the rows"),
        (r"pass a frame of some of the rows", "give one file of some of the rows"),
        (r"only dfi\.explain works", "only dfi explain works"),
        (r"try another estimator or more rows", "try another --model or more rows"),
        (r"an estimator that suits them better", "a --model that suits them better"),
        (r"If it is a column, pass X\.T\.", "Give a table with a line for each observation."),
        (r"explain with keep_rows=True", "explain with --keep-rows"),
        (
            r"make it numbers, e\.g\. .*, or declare its values to be classes, e\.g\. "
            r"X\[.*\]\.astype\('category'\)\.",
            "write it as numbers, or name the column with --categorical if its values are classes.",
        ),
        (r"\brows=(\d+ is more than .*?): pass fewer, or .*", r"--rows \1: ask for fewer"),
        (r"^rows (?=must)", "--rows "),
        (r"make it numbers, e\.g\. y\.astype\(float\), or pass", "write it as numbers, or say"),
        (
            r"(values are dates and ('.*') is not): make days of it, .*",
            r"\1: call \2 missing with --na-values, name the column with --categorical if its "
            "values are classes, or leave it out with --drop.",
        ),
        (
            r"(holds dates as text, such as .*?): make days of it, .*",
            r"\1: make a number of it with --dates days, several with --dates parts, leave it out "
            "with --dates drop, or name the column with --categorical if its values are classes.",
        ),
        (
            r"make days of it, e\.g\. \(pd\.to_datetime.*\.astype\('category'\)\.",
            "make a number of it with --dates days, or name the column with --categorical if its "
            "values are classes.",
        ),
        (r"a whole number of 50 or more or None", "a whole number of 50 or more, or all"),
        (r"Group rare ones if", "Pool rare ones with --max-levels if"),
        (
            r"(holds dates or times .*?, which is not a quantity or a class\.) .*",
            r"\1 Make a number of it with --dates days, several with --dates parts, or leave it "
            "out with --dates drop.",
        ),
        (r"Encode it as a number(?:, e\.g\.[^;]*?)?, or drop it\.", "Leave it out with --drop."),
        (r"drop it\.", "leave it out with --drop."),
        (r"[Pp]ass sampling weights as sample_weight", "name sampling weights with --weights"),
        (r"[Gg]roup its values into fewer levels, or raise max_dense_bytes", _POOL),
        (r"Drop such columns, or pass", "Leave such columns out with --drop, or use"),
        (r"\by=('[^']*') (?=has|names)", r"the target \1 "),
        (r"pass X\[[^\]]*\]+", "put them in that order"),
        (r"; pass a dict of group names to lists (?:of columns|instead)[^.]*\.", f"; {_GROUPS}."),
        (
            r"; pass one label per feature, or a dict of group names to lists of columns\. Labels "
            r"of rows are cv_groups\.",
            f"; {_GROUPS}.",
        ),
        (r"pass groups=\{'name': \['unit', \.\.\.\], \.\.\.\}", "name them with --groups"),
        (r"\ban unfitted estimator\b", "a --model that is not fitted"),
        (r"^estimator (?=is|must)", "the model "),
        # parameters and their values
        (r"transport=dfi\.transports\.(\w+)\(([^)]*)\)", _transport),
        (rf"\b([a-z_]+)={_VALUE}", _option),
        (r"\bleave (\w+) at '([\w-]+)'", lambda m: f"leave {OPTIONS.get(m[1], m[1])} at {m[2]}"),
        (r"\bleave (task and positive|loss) out\b", lambda m: f"leave {_named(m[1])} out"),
    )
)

_BARE: tuple[Rule, ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b(" + "|".join(UNMISTAKABLE) + r")\b", lambda m: OPTIONS[m[1]]),
        (r"(?<!-)\bcv (?=splits|has|is)", "--folds "),
        (r"\bnot form=", "not --form "),
        # what a caller holds
        (r"\bfrom X and y\b", "from the table"),
        (r"\bX and y\b", "the table and its target"),
        (r"\bcolumn of X\b", "column of the table"),
        (r"\bof X\b", "of the table"),
        (r"^X (?=\w)", "The table "),
        (r"\bX (?=has|is)", "the table "),
        (r"^y (?=has|holds|is|spans)", "The target "),
        (r"(?<![\w=.\[])y (?=has|holds|is|spans|must)", "the target "),
        (r"\b(of|than|number of) y\b", r"\1 the target"),
        (r"\bevery column of the table is\b", "every column is"),
    )
)


def _named(words: str) -> str:
    return " and ".join(OPTIONS.get(word, word) for word in words.split(" and "))


def in_options(text: str) -> str:
    """Return a message of the library as one about options, the table and its target.

    Text in quotation marks, such as the name of a column, is left as it is unless it is the value
    of a parameter.
    """
    for pattern, replacement in _WHOLE:
        text = pattern.sub(replacement, text)
    quoted = re.split(r"('[^']*')", text)
    for place in range(0, len(quoted), 2):
        for pattern, replacement in _BARE:
            quoted[place] = pattern.sub(replacement, quoted[place])
    return "".join(quoted)
