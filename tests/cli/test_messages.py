"""Messages on the command line speak of options, the table and the target, never of Python."""

import ast
import os
import pickle
import re
from pathlib import Path

import pytest
from typer.main import get_command

from dfi._parameters import (
    COMMON,
    TABLE,
    TARGET,
    InvalidParameterError,
    argument,
    messages_name_options,
    worded,
)
from dfi.cli.app import app

SOURCE = Path(__file__).parents[2] / "src" / "dfi"

NOT_FROM_THE_COMMAND_LINE = (
    "plots", "cli", "_docstrings.py", "_effects.py", "_sklearn.py", "datasets",
    "_models/cluster.py", "_models/pseudo.py", "_data/treatment.py", "_streams/cluster.py",
    "_streams/files.py",
    "_streams/lazy.py", "_streams/parts.py",
    "_data/dependence.py", "transports/curved.py", "_parameters.py", "results/call.py",
)  # fmt: skip
"""What no command calls, or calls with arguments that the commands make themselves."""

PARAMETERS_WITHOUT_AN_OPTION = (
    "transport_error", "integration", "additive", "scale", "how", "of", "same_rows", "diagnose",
    "skewness", "shrinkage", "covariance", "sampling", "n_permutations", "n_coalitions", "rows",
    "n_targets", "min_size", "reference", "shuffle", "input_features", "n_draws", "library",
)  # fmt: skip
"""Messages about these cannot be reached: a command never passes them."""

OPTIONS = {name: one.option for name, one in COMMON.items() if one.option}


def text_of(node):
    """Return the words of a message, with values in place of what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "'this'" if part.conversion == 114
            else "17"
            for part in node.values
        )  # fmt: skip
    return None


def name_of(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def sources():
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(NOT_FROM_THE_COMMAND_LINE):
            yield place, ast.parse(path.read_text())


def messages():
    """Yield every text but docstrings and what Python's callers alone are told."""
    for place, tree in sources():
        nodes = list(ast.walk(tree))
        worded = [n.args[0] for n in nodes if isinstance(n, ast.Call) and name_of(n) == "worded"]
        names = {n.id for n in worded if isinstance(n, ast.Name)}
        worded += [
            n.value
            for n in nodes
            if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") in names
        ]
        apart = {n.value for n in nodes if isinstance(n, ast.Expr)}
        apart |= {inner for node in worded for inner in ast.walk(node)}
        apart |= {part for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
        for node in ast.walk(tree):
            text = None if node in apart else text_of(node)
            if text and " " in text and "\n" not in text and "{name}" not in text:
                yield f"{place}:{node.lineno}", text


def test_no_message_that_a_command_can_reach_speaks_of_parameters_of_python():
    found = list(messages())
    assert len(found) > 200
    unreachable = re.compile(rf"\b({'|'.join(PARAMETERS_WITHOUT_AN_OPTION)})=|Quadrature\(")
    options = "|".join(name for name in OPTIONS if len(name) > 1)
    bare = "|".join(name for name in OPTIONS if "_" in name)
    python = re.compile(
        rf"\b({options})=|\b({bare})\b|dfi\.(explain|sensitivity|transports|compare)\b"
        r"|\bX\[|^[Xy] |\bof [Xy]\b"
    )
    assert [(p, t) for p, t in found if python.search(t) and not unreachable.search(t)] == []


def known_options():
    commands = get_command(app).commands.values()
    return {option for command in commands for one in command.params for option in one.opts}


def test_every_option_that_a_message_names_is_one():
    known = known_options()
    assert {option for option in OPTIONS.values() if option.startswith("--")} <= known
    sources = "".join(
        path.read_text()
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(("cli", "datasets"))
    )
    named = set(re.findall(r"(?<=[ '\"(])--[a-z][a-z-]+", sources))
    assert named - {"--help"} <= known
    assert len(named) > 12


def test_every_argument_that_a_message_names_is_a_parameter_with_an_option():
    names = [
        node.args[0].value
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node) == "argument"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert set(names) <= set(OPTIONS)
    assert len(set(names)) > 15


def test_no_message_is_worded_when_its_module_is_imported():
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        later = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.Lambda)
            for part in (node.body if isinstance(node.body, list) else [node.body])
            for inner in ast.walk(part)
        }
        at_once = [
            node.lineno
            for node in ast.walk(tree)
            if node not in later
            and (
                (isinstance(node, ast.Call) and name_of(node) in ("argument", "worded"))
                or (
                    isinstance(node, ast.FormattedValue)
                    and getattr(node.value, "id", "") in ("TABLE", "TARGET")
                )
            )
        ]
        assert at_once == [], path


@pytest.mark.parametrize(
    ("arguments", "python", "command"),
    [
        (("task", "classification"), "task='classification'", "--task classification"),
        (("cv", 3), "cv=3", "--folds 3"),
        (("cv", "prefit"), "cv='prefit'", "a fitted --model"),
        (("clusters",), "clusters", "--clusters"),
        (("explain_rows", None), "explain_rows=None", "--explain-rows all"),
        (("keep_rows", True), "keep_rows=True", "--keep-rows"),
        (("pos_label", ...), "pos_label=...", "--pos-label ..."),
        (("pos_label", "a b"), "pos_label='a b'", "--pos-label 'a b'"),
        (("form", "cross", "loco"), "form='cross' or 'loco'", "--form cross or loco"),
        (("epsilons", [0, 0.1]), "epsilons=[0, 0.1]", "--epsilons 0,0.1"),
        (("integration", "auto"), "integration='auto'", "integration='auto'"),
    ],
)
def test_an_argument_is_written_as_its_caller_writes_it(arguments, python, command):
    assert argument(*arguments) == python
    with messages_name_options():
        assert argument(*arguments) == command


def test_words_are_those_of_python_but_in_a_command():
    def said():
        return f"{TABLE} and {TARGET}, {worded('here', 'there')}"

    assert said() == "X and y, here"
    with messages_name_options():
        with messages_name_options():
            assert said() == "the table and the target, there"
        assert said() == "the table and the target, there"
        # workers are started with it
        assert "DFI_MESSAGES_NAME_OPTIONS" in os.environ
    assert said() == "X and y, here"


def test_errors_carry_their_parameter_and_remedy_to_other_processes():
    error = InvalidParameterError("cv is 1", "cv", "use cv=2")
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (str(one), one.parameter, one.remedy) == ("cv is 1: use cv=2", "cv", "use cv=2")
    assert str(InvalidParameterError("It is.", "cv", "Change it.")) == "It is. Change it."
    assert str(InvalidParameterError("it is", "cv")) == "it is"


def test_warnings_and_refusals_reach_the_terminal_in_options(run, frame):
    frame.with_columns(y=frame["w"]).write_csv("data.csv")
    done = run("explain", "data.csv", "-y", "y", "--model", "linear", "--drop", "w,id,when,who")
    assert done.exit_code == 0, done.output
    assert "Pass --task classification if they are classes" in done.stderr
    done = run("doctor", "data.csv", "-y", "y", "--loss", "log-loss")
    assert done.exit_code == 4
    assert "--loss log-loss is about classes, but the target is a quantity" in " ".join(
        done.stdout.split()
    )
