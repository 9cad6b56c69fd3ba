"""The call behind a result, as Python that a reader can run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi.transports import TRANSPORTS

if TYPE_CHECKING:
    from dfi._types import Plain

_ARGUMENTS = ("estimator", "transport", "cv", "n_repeats", "form", "random_state")


def call_text(spec: Plain) -> str:
    """Return the call behind a result: the recorded one, or one rebuilt from the specification."""
    recorded = spec.get("call")
    if isinstance(recorded, str):
        return recorded
    method = spec.get("method", "dfi")
    named = [key for key in _ARGUMENTS if key in spec and (method == "dfi" or key != "n_repeats")]
    known = [f"{key}={_argument(key, spec)}" for key in named]
    if not known:
        return "not recorded"
    if method == "dfi":
        return f"{_front_door(spec)}, {', '.join(known)})"
    return f"dfi.compare(X, y, [{method!r}], {', '.join(known)})"


def _front_door(spec: Plain) -> str:
    """Return how a call begins: with an outcome, with a treatment or with pseudo-outcomes."""
    outcome = spec.get("outcome")
    effect = outcome.get("effect") if isinstance(outcome, dict) else None
    if not isinstance(effect, dict):
        return f"dfi.explain(X, y{_target_arguments(outcome)}"
    if "treatment" not in effect:
        return "dfi.effects(X, pseudo_outcome=psi"
    names = ("outcome_model", "propensity_model")
    models = [f"{key}={_learner_text(str(effect[key]))}" for key in names]
    begin = f"dfi.effects(X, y, treatment{_target_arguments(effect)}"
    return f"{begin}, {', '.join(models)}, clip={effect['clip']}"


def _target_arguments(outcome: object) -> str:
    """Return a call's arguments for times to an event or a distribution; else empty."""
    if not isinstance(outcome, dict):
        return ""
    survival, levels = outcome.get("survival"), outcome.get("distribution")
    if isinstance(survival, dict):
        return f", horizon={survival['horizon']!r}, target={survival['target']!r}"
    if not isinstance(levels, dict):
        return ""
    if outcome.get("kind") == "several":
        return ", target='distribution'"
    return f", target=dfi.Quantile({levels['levels'][0]:g})"


def _learner_text(text: str) -> str:
    """Return a learner as it was written: a name, an object, or what is known in its place."""
    if text.startswith("known, "):
        return "e" if text == "known, by row" else text.removeprefix("known, ")
    return text if "(" in text else repr(text)


def _argument(key: str, spec: Plain) -> str:
    value = spec[key]
    text = str(value)
    if key == "transport" and text in TRANSPORTS:
        options = _transport_options(TRANSPORTS[text]().specification(), spec)
        if options:
            return f"dfi.transports.{TRANSPORTS[text].__name__}({options})"
    # objects were recorded by their text; long ones (a list of splits) are only named
    if key == "cv" and text.startswith("["):
        return "splits"
    if (key == "cv" and text.isdigit()) or (key in ("cv", "estimator") and "(" in text):
        return text
    return repr(value)


def _transport_options(default: Plain, spec: Plain) -> str:
    """Return the entries of the specification that differ from the transport's defaults."""
    options = []
    if spec.get("epsilon"):
        options.append(f"epsilon={spec['epsilon']!r}")
    if "components" in spec and spec["components"] != default.get("components"):
        options.append(f"components={spec['components']!r}")
    return ", ".join(options)
