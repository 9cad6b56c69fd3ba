"""What start-up loads: libraries wait until something needs them."""

import subprocess
import sys

import pytest

NUMBERS = {
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "polars",
    "pyarrow",
    "narwhals",
    "joblib",
    "numba",
}
DRAWING = {"matplotlib", "jinja2", "typer"}
LATER = DRAWING | {"numba", "llvmlite", "polars", "lightgbm", "xgboost", "catboost", "torch"}


def loaded(program, *arguments):
    """Return the top-level modules that are loaded when a program ends."""
    end = "\nfinally:\n    import sys; sys.stderr.write(chr(10) + ' '.join(sys.modules))"
    body = "\n".join(f"    {line}" for line in program.splitlines())
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"try:\n{body}{end}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.split(".")[0] for name in done.stderr.splitlines()[-1].split()}


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded("import dfi; dir(dfi); dfi.__version__") & (NUMBERS | DRAWING)


def test_the_functions_load_neither_drawing_nor_compiling():
    names = "DFI, Importance, compare, datasets, explain, load, methods, sensitivity, transports"
    assert not loaded(f"from dfi import {names}") & LATER


@pytest.mark.parametrize("arguments", [("--help",), ("explain", "--help"), ("--version",)])
def test_help_loads_no_library_of_numbers(arguments):
    found = loaded("from dfi.cli import main\nmain()", *arguments)
    assert "typer" in found
    assert not found & (NUMBERS | {"matplotlib", "jinja2"})


def test_doctor_loads_what_it_looks_at_tables_with(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 5},{k % 3}\n" for k in range(60)))
    found = loaded("from dfi.cli import main\nmain()", "doctor", str(table), "--target", "y")
    assert "polars" in found
    assert not found & (LATER - {"typer", "polars"})


def test_a_command_that_ends_leaves_no_garbage_to_be_looked_for():
    loaded("import gc\nfrom dfi.cli import main\ntry:\n    main()\nfinally:\n"
           "    assert gc.get_freeze_count() > 0", "--version")  # fmt: skip


def test_a_name_is_the_function_whichever_way_it_was_loaded():
    """Modules that are called like their function do not hide it."""
    program = "import dfi\ndfi.Results\nassert callable(dfi.sensitivity)\n"
    loaded(program + "assert callable(dfi.compare)\nassert dfi.explain is dfi.explain")


def test_a_name_that_is_not_public_is_an_attribute_error():
    program = "import dfi\ntry:\n    dfi.nonsense\nexcept AttributeError as error:\n"
    loaded(
        program + "    assert str(error) == \"module 'dfi' has no attribute 'nonsense'\"\n"
        "else:\n    raise AssertionError"
    )
