"""Where a result comes from: its call, its versions, its specification as readable items."""

from __future__ import annotations

import platform
from typing import Any

from dfi.transports import TRANSPORTS

_ARGUMENTS = (
    "estimator",
    "transport",
    "cv",
    "n_repeats",
    "score",
    "random_state",
)


def call_text(spec: dict[str, Any]) -> str:
    """Return the call behind a result: the recorded one, or one rebuilt from the specification."""
    recorded = spec.get("call")
    if isinstance(recorded, str):
        return recorded
    known = [f"{key}={_argument(key, spec)}" for key in _ARGUMENTS if key in spec]
    if not known:
        return "not recorded"
    method = spec.get("method", "dfi")
    if method == "dfi":
        return f"dfi.explain(X, y, {', '.join(known)})"
    return f"dfi.compare(X, y, [{method!r}], {', '.join(known)})"


def _argument(key: str, spec: dict[str, Any]) -> str:
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


def _transport_options(default: dict[str, Any], spec: dict[str, Any]) -> str:
    """Return what the specification says that is not the transport's default."""
    found = []
    if spec.get("epsilon"):
        found.append(f"epsilon={spec['epsilon']!r}")
    if "components" in spec and spec["components"] != default.get("components"):
        found.append(f"components={spec['components']!r}")
    return ", ".join(found)


def versions(spec: dict[str, Any]) -> dict[str, str]:
    """Return the recorded versions of the libraries, and the Python that wrote the report."""
    recorded = spec.get("versions")
    found = {str(k): str(v) for k, v in recorded.items()} if isinstance(recorded, dict) else {}
    return {**found, "Python (of the report)": platform.python_version()}


def flat_items(values: dict[str, Any], prefix: str = "") -> list[dict[str, str]]:
    """Return nested values as a flat list of names and texts."""
    items: list[dict[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            items += flat_items(value, f"{prefix}{key}, ")
        else:
            items.append({"name": name, "value": _text(value)})
    return items


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and not value:
        return "none"
    if isinstance(value, list):
        shown = ", ".join(_text(item) for item in value[:30])
        return shown + (f", … ({len(value)} in all)" if len(value) > 30 else "")
    return str(value)
