"""Settings of the documentation site: `make docs` builds it into docs/_build/html.

Formulas are Unicode in the pages and become MathML in the docstrings, which browsers draw
themselves: no MathJax, so that a reader loads nothing from elsewhere.
"""

import os
import re
import sys
import warnings
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import api_pages  # noqa: E402

import proxyprox  # noqa: E402

project = "proxyprox"
author = "The proxyprox developers"
copyright = "the proxyprox developers, MIT licence"
version = release = proxyprox.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
root_doc = "index"
# ProxyProx without a module is two classes, of `proxyprox` and `proxyprox.torch`.
suppress_warnings = ["config.cache", "ref.python"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_use_param = False

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "proxyprox"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "proxyprox"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "how_it_works": [], "when_not": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    # Scripts with another name are listed on the pages that use them, and are not run here.
    "filename_pattern": r"plot_",
    "ignore_pattern": r"^(?!.*plot_).*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "parallel": True,  # as many as sphinx has processes
    "show_signature": False,
    # Its page loads scripts from other hosts.
    "write_computation_times": False,
    "min_reported_time": 1,
    "plot_gallery": "True",
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _mathml(translator, node):
    """Write a formula as MathML."""
    from latex2mathml.converter import convert

    display = "block" if isinstance(node, nodes.math_block) else "inline"
    formula = convert(node.astext().replace(r"\arg\min", r"\operatorname{argmin}"), display=display)
    block = f'<div class="formula">{formula}</div>' if display == "block" else formula
    translator.body.append(block)
    raise nodes.SkipNode


def _examples(app, docname, source):
    """Turn links to example scripts into their pages, and "Picture: …" into their pictures."""
    page, picture = r"auto_examples/\2.rst", r"auto_examples/images/sphx_glr_\2_001.png"
    depth = "../" * docname.count("/")
    source[0] = re.sub(
        r"\[Picture: ([^\]]+)\]\(../examples/(plot_\w+)\.py\)",
        rf"[![\1]({depth}{picture})]({depth}{page})\n\n*Drawn by [this example]({depth}{page}).*",
        source[0],
    )
    source[0] = re.sub(
        r"\[([^\]]+)\]\((../)+examples/(plot_\w+)\.py\)",
        rf"[\1]({depth}auto_examples/\3.rst)",
        source[0],
    )
    # Pages that stand at the top of the repository have a copy here.
    source[0] = re.sub(
        r"\((?:\.\./)+(SECURITY|CONTRIBUTING|CHANGELOG)\.md",
        lambda found: f"({depth}{found[1].lower()}.md",
        source[0],
    )


def _leave_out(app, what, name, member, skip, options):
    """Leave out what scikit-learn writes into every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else skip


def setup(app):
    """Write the API pages and register the renderer of formulas."""
    app.connect("source-read", _examples)
    app.connect("autodoc-skip-member", _leave_out)
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    api_pages.write(HERE / "api")
