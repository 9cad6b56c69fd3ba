"""How Sphinx builds the site from these pages: `make docs`, offline once the extra is installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.fileutil import copy_asset_file

import dfi

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"

project = "dfi"
author = "The dfi developers"
copyright = author  # noqa: A001
version = release = dfi.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
]

# READMEs are for readers of the repository; the site has an index of its own.
exclude_patterns = [
    "_build",
    "sg_execution_times.rst",
    "_templates",
    "images/draw.py",
    "**/GALLERY_HEADER.rst",
]
suppress_warnings = ["config.cache"]
nitpicky = True
nitpick_ignore_regex = [
    # What is not public is named in docstrings for those who read the source.
    (r"py:.*", r"dfi\._.*"),
    (r"py:.*", r"dfi\.(transports|methods|results|inference|report|plots)\..*"),
]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections name types and defaults in words
autodoc_member_order = "groupwise"
autodoc_default_options = {"exclude-members": "__init__"}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = f"dfi {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "dfi"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
    "header_links_before_dropdown": 7,
}
html_sidebars = {"index": [], "start": [], "project/*": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

mathjax_path = "mathjax/tex-svg.js"


def write_project_pages() -> None:
    """Copy the project's own pages into the site, with links that hold there.

    They lie at the top of the repository, where hosts look for them, and link from there.
    """
    pages = {
        "CHANGELOG.md": "whats-new", "CONTRIBUTING.md": "contributing",
        "CODE_OF_CONDUCT.md": "conduct", "SECURITY.md": "security",
    }  # fmt: skip
    folder = HERE / "project"
    folder.mkdir(exist_ok=True)
    for name, page in pages.items():
        text = (HERE.parent / name).read_text().replace("](docs/", "](../")
        for other, target in pages.items():
            text = text.replace(f"]({other}", f"]({target}.md")
        place = folder / f"{page}.md"
        if not place.exists() or place.read_text() != text:  # unchanged pages are not built again
            place.write_text(text)


write_project_pages()

extensions.append("sphinx_gallery.gen_gallery")
sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # a page that tells seconds differs from build to build
    "write_computation_times": False,  # such a table loads scripts from afar
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "reference_url": {"dfi": None},
}


def copy_mathjax(app: Sphinx, failed: Exception | None) -> None:
    """Put the one file of MathJax that pages load beside them: no reader needs a network."""
    if failed is not None or app.builder.format != "html":
        return
    home = importlib.util.find_spec("sphinx-mathjax-offline")
    if home is None or home.origin is None:
        raise RuntimeError("the site needs sphinx-mathjax-offline: pip install '.[docs]'")
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    source = Path(home.origin).parent / "static" / "mathjax" / "tex-svg.js"
    copy_asset_file(source, target, force=True)


def skip_routing(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out the methods that scikit-learn makes for its metadata routing."""
    return True if re.fullmatch(r"[sg]et_\w*(request|routing)", name) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what the site adds to Sphinx."""
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
