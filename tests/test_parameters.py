"""The table of what public parameters may be, and that public functions go by it."""

import inspect
import typing

import numpy as np
import pytest
from sklearn.base import clone

import dfi
from dfi import _parameters
from dfi._data.problem import read_data
from dfi._estimates.covariance import CovarianceKind
from dfi._models.prepare import fits_of
from dfi._scoring.forms import AskedForm
from dfi._scoring.task import TransportError
from dfi.inference.intervals import Alternative, Expansion
from dfi.inference.tests import Adjustment
from dfi.methods import Disentangled, prepare
from dfi.methods.shapley import Sampling
from dfi.results.questions import GroupScores
from dfi.results.tables import ShareOf
from dfi.transports.blocks import BlockAttribution

from .test_public_surface import NAMESPACES, listed

SAMPLE = dfi.datasets.m1(80, d=3)


@pytest.fixture(scope="module")
def result():
    return dfi.explain(SAMPLE.X, SAMPLE.y, "linear", cv=2, diagnose=False)


LITERALS = {
    "adjust": Adjustment,
    "alternative": Alternative,
    "attribution": BlockAttribution,
    "covariance": CovarianceKind,
    "expansion": Expansion,
    "form": AskedForm,
    "of": ShareOf,
    "sampling": Sampling,
    "transport_error": TransportError,
}


@pytest.mark.parametrize("name", LITERALS)
def test_choices_of_the_table_are_those_of_the_types(name):
    assert _parameters.COMMON[name].allowed[0].names == typing.get_args(LITERALS[name])


def test_the_choices_of_groups_are_those_of_their_type():
    assert _parameters.COMMON["how"].allowed[0].names == typing.get_args(GroupScores)


PUBLIC = (dfi.explain, dfi.compare, dfi.sensitivity, dfi.effects, dfi.Importance.table)


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__qualname__)
def test_defaults_are_allowed_and_flags_and_choices_are_in_the_table(function):
    for name, parameter in inspect.signature(function).parameters.items():
        allowed = _parameters.constraints_of(function.__qualname__, name)
        if parameter.default is not inspect.Parameter.empty:
            _parameters.check_one(name, parameter.default, allowed, optional=True)
        if str(parameter.annotation).startswith(("bool", "int", "float")):
            assert allowed, name


def test_docstrings_take_from_the_table_what_they_do_not_say():
    @_parameters.validated
    def draw(own, *, level=0.9, top=None, n_jobs=2):
        """Draw.

        Parameters
        ----------
        own : int
            Its own.
        n_jobs : int, default=2
            Said here.

        Returns
        -------
        None
        """

    common = _parameters.COMMON
    assert draw.__doc__.splitlines() == [
        *("Draw.", "", "Parameters", "----------", "own : int", "    Its own."),
        *("level : float, default=0.9", f"    {common['level'].text}"),
        *("top : int or None, default=None", f"    {common['top'].text}"),
        *("n_jobs : int, default=2", "    Said here.", "", "Returns", "-------", "None"),
    ]


def test_docstrings_without_a_section_of_parameters_get_one_before_the_next():
    @_parameters.validated
    def draw(ax=None):
        """Draw.

        Examples
        --------
        >>> draw()
        """

    @_parameters.validated
    def line(ax=None):
        """Draw a line."""

    section = (
        "Parameters\n----------\nax : Axes, optional\n    Where to draw; a new figure by default."
    )
    assert draw.__doc__ == f"Draw.\n\n{section}\n\nExamples\n--------\n>>> draw()"
    assert line.__doc__ == f"Draw a line.\n\n{section}"


FLAGS = ["no", "False", 0, 1, 1.0, "", []]


@pytest.mark.parametrize("value", FLAGS)
@pytest.mark.parametrize("name", ["diagnose", "keep_rows", "progress"])
def test_booleans_take_booleans(name, value):
    with pytest.raises(TypeError, match=rf"^{name} must be True or False, got "):
        dfi.explain(SAMPLE.X, SAMPLE.y, "linear", **{name: value})


def test_numpy_booleans_are_booleans():
    for value in (np.True_, np.False_):
        _parameters.check_one("sort", value, _parameters.COMMON["sort"].allowed)


EXPLAIN = {
    "level": ("0.9", 95, 0, True, float("nan"), None),
    "n_jobs": ("2", 0, 1.5, True),
    "n_repeats": (0, -1, 2.5, "3", True),
    "random_state": (-1, "0", 1.5, np.random.default_rng(0)),
    "max_seconds": (0, "60", -1.0, float("nan"), True),
    "explain_rows": (1, "all", 2.5, True, -5),
    "fit_rows": (1, "all", 0.5),
    "units": ("column", None, 3),
    "missing": ("impute", None, True),
    "task": ("regress", 1),
    "scale": ("logit",),
    "form": ("lco", None),
    "transport_error": ("exact", False),
    "integration": ("gauss", 32, None),
}


@pytest.mark.parametrize("name", EXPLAIN)
def test_explain_refuses_by_name_with_what_may_be(name):
    for value in EXPLAIN[name]:
        with pytest.raises(_parameters.InvalidParameterError, match=rf"^{name} must be .*, got "):
            dfi.explain(SAMPLE.X, SAMPLE.y, "linear", **{name: value})
        explainer = dfi.DFI(estimator="linear")
        if name in explainer.get_params():
            with pytest.raises(_parameters.InvalidParameterError, match=rf"^{name} must be "):
                clone(explainer.set_params(**{name: value})).fit(SAMPLE.X, SAMPLE.y)


WHERE_USED = {
    "sections of a page": "sections",
    "tables and vectors": "X y sample_weight frequency_weight clusters ids treatment treated "
    "control "
    "pseudo_outcome pos_label before after scores standard_errors outcome_variance correlation "
    "beta",
    "models and designs, by name or as objects": "estimator transport transports loss "
    "method methods cv outcome_model propensity_model covariate_estimator covariate_classifier "
    "function",
    "lists, each entry named where it is wrong": "epsilons groups feature_groups components order "
    "decompositions horizon",
    "units and rows that only the result knows": "a b outcome rows which results pair pairs",
    "matplotlib's own": "ax axes",
    "handed on to a function that checks them": "options",
}
"""Parameters that are in no table, by why they are not."""

MADE_HERE = {
    *("Importance", "Change", "Results", "LocalAttributions", "HIVData", "Simulation", "Linear"),
    *("KeepList", "Selection", "SignalTree", "Interactions", "Split"),
    *("Fits", "MethodResult"),
}
"""Classes whose objects the library makes; people read them."""

ASKED = (
    dfi.DFI, dfi.Importance, dfi.Change, dfi.Results, dfi.KeepList, dfi.LocalAttributions,
    dfi.Selection, dfi.SignalTree, dfi.Interactions, dfi.Split, dfi.report.Report,
)  # fmt: skip
"""Classes whose methods people call; those of methods, transports and losses are called by the
library, with arrays."""


def public_callables():
    """Yield all that people call: the name in the table, and the function."""
    for module in (dfi, *(getattr(dfi, name) for name in NAMESPACES)):
        for name in listed(module):
            value = getattr(module, name)
            if isinstance(value, type):
                exempt = issubclass(value, Exception) or getattr(value, "_is_protocol", False)
                if name not in MADE_HERE and not exempt:
                    yield name, value.__init__
            elif callable(value) and not isinstance(value, dfi.losses.Loss):
                yield name, value
    for kind in ASKED:
        for name, value in vars(kind).items():
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function) and not name.startswith("_"):
                yield f"{kind.__name__}.{name}", function


CALLABLES = {
    owner: (function, [name for name in inspect.signature(function).parameters if name != "self"])
    for owner, function in public_callables()
}


def test_every_public_parameter_is_in_the_table_or_read_where_it_is_used():
    elsewhere = {name for names in WHERE_USED.values() for name in names.split()}
    unknown = [
        f"{owner}({name})"
        for owner, (_, names) in CALLABLES.items()
        for name in names
        if not (_parameters.constraints_of(owner, name) or (owner, name) in _parameters.OWN)
        and name not in (*elsewhere, "cls")
    ]
    assert not unknown
    assert len(CALLABLES) > 90


def test_every_public_callable_goes_by_the_table():
    """A wrapper of the table refuses names that there are not, with the nearest one."""
    assert not [
        owner
        for owner, (function, names) in CALLABLES.items()
        if set(names) - {"options"} and function.__code__.co_filename != _parameters.__file__
    ]


def test_defaults_of_all_public_callables_are_allowed():
    for owner, (function, _) in CALLABLES.items():
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                allowed = _parameters.constraints_of(owner, name)
                _parameters.check_one(name, parameter.default, allowed, optional=True)


METHODS = [
    ("table", {"level": 95}),
    ("table", {"simultaneous": "no"}),
    ("table", {"sort": "score"}),
    ("table", {"adjust": "bonferoni"}),
    ("test", {"null": "0"}),
    ("test", {"alternative": "larger"}),
    ("interval", {"level": "95%"}),
    ("interval", {"skewness": 1}),
    ("interval", {"random_state": -1}),
    ("ranks", {"level": 2}),
    ("top", {"k": 0}),
    ("top", {"k": "3"}),
    ("group", {"how": "total"}),
    ("shares", {"of": "all"}),
    ("moments", {"sample": -1}),
    ("save", {"path": 3}),
    ("save", {"path": "x.dfi", "overwrite": "no"}),
    ("report", {"path": "x.html", "overwrite": "no"}),
    ("report", {"path": "x.html", "title": 3}),
    ("plot", {"top": "3"}),
    ("local", {"refine": "64"}),
    ("local", {"background": 2.5}),
    ("local", {"sample": 0}),
    ("local", {"scale": "logit"}),
    ("plot", {"simultaneous": "no"}),
]


FUNCTIONS = [
    (dfi.change, {"rows": "equal"}),
    (dfi.change, {"y": SAMPLE.y}),
    (dfi.change, {"level": 95}),
    (dfi.change, {"diagnose": "no"}),
    (dfi.methods.prepare, {"samples": 1}),
    (dfi.methods.prepare, {"scale": "logit"}),
    (dfi.plots.beeswarm, {"top": 0}),
    (dfi.plots.dependence, {"color": 3}),
    (dfi.plots.waterfall, {"row": "first"}),
    (dfi.plots.change, {"top": 2.5}),
    (dfi.report.Report, {"title": 3}),
    (dfi.inference.wald_interval, {"nonnegative": "no"}),
    (dfi.losses.custom, {"name": 3}),
]


@pytest.mark.parametrize(
    ("function", "options"),
    FUNCTIONS,
    ids=[f"{function.__name__}-{'-'.join(options)}" for function, options in FUNCTIONS],
)
def test_functions_refuse_by_name_before_they_look_at_the_data(function, options):
    (name,) = options
    missing = [
        parameter
        for parameter, about in inspect.signature(function).parameters.items()
        if about.default is about.empty and not _parameters.constraints_of("", parameter)
    ]
    with pytest.raises(_parameters.InvalidParameterError, match=f"^{name} must be .*, got "):
        function(**dict.fromkeys(missing), **options)


def test_objects_of_another_kind_are_answered_with_where_one_comes_from(result):
    for draw, other, words in (
        (dfi.plots.beeswarm, result, "local must be a dfi.LocalAttributions.*: pass what result.l"),
        (dfi.plots.change, result, "found must be a dfi.Change.*: pass what change returns"),
        (dfi.plots.importance, SAMPLE.X, "result must be a dfi.Importance, got a ndarray"),
    ):
        with pytest.raises(_parameters.InvalidParameterError, match=words):
            draw(other)


@pytest.mark.parametrize(("method", "options"), METHODS, ids=str)
def test_methods_of_results_refuse_by_name(result, method, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = list(options)[-1]
    with pytest.raises(_parameters.InvalidParameterError, match=f"^{name} must be .*, got "):
        getattr(result, method)(**options)
    assert not list(tmp_path.iterdir())


MADE = [
    (dfi.transports.Gaussian, {"standardize": "no"}),
    (dfi.transports.Gaussian, {"covariance": "lw"}),
    (dfi.transports.Gaussian, {"attribution": "both"}),
    (dfi.transports.EntropicOT, {"whiten": "no"}),
    (dfi.transports.EntropicOT, {"split": 1}),
    (dfi.transports.KnotheRosenblatt, {"latent": "normal"}),
    (dfi.methods.CPI, {"n_permutations": 1}),
    (dfi.methods.LOCO, {"sample_split": "no"}),
    (dfi.methods.NLOCO, {"normalize": "y"}),
    (dfi.methods.PCM, {"n_folds": 1.0}),
    (dfi.methods.Shapley, {"exact": 1}),
    (dfi.methods.Sobol, {"latent": "yes"}),
    (dfi.methods.Disentangled, {"additive": "yes"}),
    (dfi.methods.Disentangled, {"form": "lco"}),
    (dfi.Quadrature, {"nodes": 0}),
    (dfi.Quadrature, {"donors": 1}),
]


@pytest.mark.parametrize(("kind", "options"), MADE, ids=str)
def test_constructors_refuse_by_name(kind, options):
    (name,) = options
    with pytest.raises(_parameters.InvalidParameterError, match=f"^{name} must be .*, got "):
        kind(**options)


SPELT = [
    (lambda **o: dfi.explain(SAMPLE.X, SAMPLE.y, **o), "estimater", "explain", "estimator"),
    (lambda **o: dfi.explain(SAMPLE.X, SAMPLE.y, **o), "weights", "explain", "sample_weight"),
    (lambda **o: dfi.explain(SAMPLE.X, SAMPLE.y, **o), "seed", "explain", "random_state"),
    (lambda **o: dfi.compare(SAMPLE.X, SAMPLE.y, **o), "method", "compare", "methods"),
    (lambda **o: dfi.effects(SAMPLE.X, SAMPLE.y, **o), "treatement", "effects", "treatment"),
    (lambda **o: dfi.change(SAMPLE.X, SAMPLE.X, **o), "row", "change", "rows"),
    (lambda **o: dfi.methods.prepare(SAMPLE.X, SAMPLE.y, **o), "seed", "prepare", "random_state"),
    (lambda **o: dfi.DFI().local(SAMPLE.X, **o), "refined", "local", "refine"),
    (dfi.datasets.m1, "seed", "m1", "random_state"),
    (dfi.losses.pinball, "quantil", "pinball", "quantile"),
    (dfi.DFI, "estimater", "DFI", "estimator"),
    (dfi.transports.Gaussian, "epsilom", "Gaussian", "epsilon"),
    (dfi.Quadrature, "node", "Quadrature", "nodes"),
]


@pytest.mark.parametrize(("call", "name", "owner", "meant"), SPELT)
def test_misspelt_names_are_answered_with_the_nearest_one(call, name, owner, meant):
    message = rf"^{owner}\(\) has no option '{name}'; did you mean '{meant}'\?$"
    with pytest.raises(TypeError, match=message):
        call(**{name: 1})


def test_options_that_are_handed_on_are_named_too(result):
    with pytest.raises(TypeError, match=r"^importance\(\) has no option 'tpo'; did you mean 'top'"):
        result.plot(tpo=3)
    with pytest.raises(TypeError, match=r"^report\(\) has no option 'titel'; did you mean"):
        result.report("x.html", titel="x")


def test_a_name_like_no_other_is_answered_with_the_list(result):
    with pytest.raises(TypeError, match=r"^top\(\) has no option 'zzz'; its options are 'k'$"):
        result.top(zzz=3)


def test_long_values_and_tables_are_not_quoted_whole():
    with pytest.raises(_parameters.InvalidParameterError, match=r"got 'x{76}\.\.\.$"):
        dfi.explain(SAMPLE.X, SAMPLE.y, form="x" * 1000)
    with pytest.raises(_parameters.InvalidParameterError, match=r"got a ndarray of shape"):
        dfi.explain(SAMPLE.X, SAMPLE.y, diagnose=SAMPLE.X)


def test_what_is_missing_is_pythons_own_business():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        dfi.compare(SAMPLE.X)
    with pytest.raises(TypeError, match=r"explain needs y: .* time=\.\.\. and event=\.\.\."):
        dfi.explain(SAMPLE.X)


def test_simultaneous_levels_beyond_what_the_draws_can_tell_are_refused(result):
    """At level 0.9999 the band of 4000 draws would be narrower than intervals of single units."""
    assert np.isfinite(result.interval(0.9975, simultaneous=True)["ci_high"]).all()
    message = r"level=0\.9999 needs more than 4000 draws .* a level of 0\.9975 or less"
    for call in (result.interval, result.table):
        with pytest.raises(ValueError, match=message):
            call(level=0.9999, simultaneous=True)
    assert np.isfinite(result.interval(0.9999)["ci_high"]).all()
    assert len(result.ranks(0.9999)) == 3


PASSED_ON = {
    dfi.explain: ((Disentangled, prepare), "level keep_rows time event"),
    dfi.sensitivity: ((Disentangled, prepare), "level keep_rows transports epsilons solved"),
    dfi.compare: ((prepare,), "level keep_rows methods"),
    dfi.effects: (
        (Disentangled, read_data, fits_of),
        "level keep_rows clip treated control contrasts treatment pseudo_outcome outcome_model "
        "propensity_model target horizon",
    ),
    dfi.change: ((dfi.explain,), "before after id ids rows"),
    dfi.DFI: ((Disentangled, prepare), "level keep_rows"),
    prepare: ((read_data, fits_of), "fit_rows explain_rows samples row_id target horizon"),
}


@pytest.mark.parametrize("function", PASSED_ON, ids=lambda function: function.__name__)
def test_every_parameter_is_used_by_the_function_or_passed_on_by_name(function):
    """What is passed on by name would be ignored, silently, where nobody takes it."""
    takers, own = PASSED_ON[function]
    taken = {name for taker in takers for name in inspect.signature(taker).parameters}
    assert set(inspect.signature(function).parameters) - taken == set(own.split())
