"""The regression behind an explanation: a name, or a file that the user trusts."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dfi._models.learners import LEARNERS
from dfi.cli.failures import INPUT, REFUSED, Failure

if TYPE_CHECKING:
    from dfi.cli.console import Console

FILES = (".joblib", ".pkl", ".pickle")


def resolve_model(model: str, *, trust: bool, console: Console) -> tuple[Any, bool]:
    """Return a learner's name or a loaded model, and whether it is already fitted.

    Parameters
    ----------
    model : str
        A name of :data:`dfi._models.learners.LEARNERS`, or a joblib file.
    trust : bool
        Whether the user said that the file may be loaded.
    console : Console
        Where the warning goes.
    """
    if model in LEARNERS:
        return model, False
    if not model.lower().endswith(FILES):
        close = difflib.get_close_matches(model, LEARNERS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise Failure(
            f"unknown model {model!r}; {hint}known are {', '.join(LEARNERS)}, or a .joblib file",
            REFUSED,
        )
    if not Path(model).is_file():
        raise Failure(f"there is no file {model}", INPUT)
    if not trust:
        raise Failure(
            f"loading {model} runs the code that is stored in it: if you trust whoever wrote it, "
            "add --trust-model",
            REFUSED,
        )
    console.warn(f"loading {model} runs the code that is stored in it")
    try:
        loaded = joblib.load(model)
    except (ImportError, AttributeError) as error:
        raise Failure(f"{model} needs code that is not installed here: {error}", INPUT) from error
    except Exception as error:
        # bytes that are no pickle make its reader raise almost anything
        raise Failure(f"{model} is not a model that joblib can load ({error})", INPUT) from error
    if not hasattr(loaded, "predict"):
        raise Failure(f"{model} holds a {type(loaded).__name__}, which has no predict", REFUSED)
    return loaded, _is_fitted(loaded)


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    except TypeError:  # not a scikit-learn estimator
        return True
    return True
