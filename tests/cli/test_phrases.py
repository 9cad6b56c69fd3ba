"""Messages on the command line speak of options, the table and the target, never of Python."""

import ast
import re
from pathlib import Path

import pytest

from dfi.cli.app import app
from dfi.cli.phrases import OPTIONS, in_options

SOURCE = Path(__file__).parents[2] / "src" / "dfi"

NOT_FROM_THE_COMMAND_LINE = (
    "plots", "cli", "_effects.py", "_sklearn.py", "datasets", "_models/cluster.py",
    "_models/pseudo.py", "_data/treatment.py", "_data/streams", "inference",
)  # fmt: skip
"""What no command calls, or calls with arguments that the commands make themselves."""

PARAMETERS_WITHOUT_AN_OPTION = (
    "transport_error", "integration", "additive", "scale", "how", "of", "same_rows", "diagnose",
    "skewness", "shrinkage", "covariance", "sampling", "n_permutations", "n_coalitions", "order",
    "n_targets", "min_size", "reference", "shuffle", "input_features", "n_draws", "library",
)  # fmt: skip
"""Messages about these cannot be reached: a command never passes them."""


def text_of(node):
    """Return a message as it may come out, with values in place of what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "'this'" if part.conversion == 114
            else "17"
            for part in node.values
        )  # fmt: skip
    if isinstance(node, ast.BinOp):
        return (text_of(node.left) or "") + (text_of(node.right) or "")
    return None


def messages():
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(NOT_FROM_THE_COMMAND_LINE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("ValueError", "TypeError", "warn", "_refuse", "Alarm"):
                for argument in node.args:
                    text = text_of(argument)
                    if text and " " in text:
                        yield f"{place}:{node.lineno}", text


def test_no_message_that_a_command_can_reach_speaks_of_parameters_of_python():
    found = list(messages())
    assert len(found) > 200
    unreachable = re.compile("|".join(rf"\b{name}\b" for name in PARAMETERS_WITHOUT_AN_OPTION))
    python = re.compile(
        r"\b(" + "|".join(OPTIONS) + r")=|dfi\.(explain|sensitivity|transports|compare)\b|\bX\["
    )
    left = [
        (place, in_options(text))
        for place, text in found
        if python.search(in_options(text)) and not unreachable.search(text)
    ]
    assert left == []


def test_every_option_that_a_message_names_is_one():
    known = {
        option
        for command in app.registered_commands
        for annotation in command.callback.__annotations__.values()
        for option in re.findall(r"--[a-z][a-z-]*", str(annotation))
    }
    from typer.main import get_command

    for command in get_command(app).commands.values():
        known |= {option for parameter in command.params for option in parameter.opts}
    assert set(OPTIONS.values()) <= known
    named = {o for _, text in messages() for o in re.findall(r"--[a-z][a-z-]+", in_options(text))}
    assert named <= known
    assert len(named) > 12


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("Pass task='classification' if", "Pass --task classification if"),
        (
            "dfi.sensitivity(X, y, transports=[...]) shows what",
            "dfi sensitivity DATA --target NAME --transports gaussian,copula shows what",
        ),
        ("transport=dfi.transports.EntropicOT(epsilon=5)", "--transport entropic --epsilon 5"),
        ("leave task at 'auto'", "leave --task at auto"),
        ("or pass missing='unit'.", "or pass --missing unit."),
        ("use cv=3 or less", "use --folds 3 or less"),
        ("cv_groups has 3 clusters", "--cv-groups has 3 clusters"),
        ("column 'cv_groups' spans 0", "column 'cv_groups' spans 0"),
        ("y has 3 missing labels", "The target has 3 missing labels"),
        ("X has infinite values in 'y' (2)", "The table has infinite values in 'y' (2)"),
        ("Drop those rows from X and y:", "Drop those rows from the table:"),
        ("explain_rows=None explains", "--explain-rows all explains"),
        ("with keep_rows=True", "with --keep-rows"),
        ("this LGBMModel(max_depth=3) is", "this LGBMModel(max_depth=3) is"),
    ],
)  # fmt: skip
def test_words(said, heard):
    assert in_options(said) == heard


def test_warnings_and_refusals_reach_the_terminal_in_options(run, frame):
    frame.with_columns(y=frame["w"]).write_csv("data.csv")
    done = run("explain", "data.csv", "-y", "y", "--model", "linear", "--drop", "w,id,when,who")
    assert done.exit_code == 0, done.output
    assert "Pass --task classification if they are classes" in done.stderr
    done = run("doctor", "data.csv", "-y", "y", "--loss", "log-loss")
    assert done.exit_code == 4
    assert "--loss log-loss is about classes, and the target is a quantity" in " ".join(
        done.stdout.split()
    )
