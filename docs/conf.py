"""Markdown in docs/, docstrings and flags -> the documentation site.

`make docs` builds it. Pages of scripts and modules are written anew before each
build, so that the reference and the code cannot differ.
"""

import functools
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import jupyter_client  # noqa: E402  After sys.path, as all of these.
import nbclient  # noqa: E402

import run_scripts  # noqa: E402, F401  Quiets TensorFlow's log.
from docs import generated_pages, other_libraries, pictures  # noqa: E402

project = "bert_tf"
author = "the bert_tf authors"
html_title = "bert_tf"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
# The lists are included by other pages.
exclude_patterns = ["_build", "reference/*/list.md", "notebooks/executed"]
# Names of these packages must have a page; other types are words in docstrings,
# such as "[B, S] int32".
nitpicky = True
_PACKAGES = ("bert_tf", "tfrecords", "keras", "np", "numpy", "tensorflow", "tf")
nitpick_ignore_regex = [(".*", rf"(?!({'|'.join(_PACKAGES)})\.).*")]

# Links to Keras, NumPy and TensorFlow, from inventories of our own.
intersphinx_mapping = other_libraries.write_inventories(
    FOLDER / "_build" / "inventories"
)
intersphinx_disabled_reftypes = ["std:*"]
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3  # Links such as records.md#manifest.

# Notebooks are run in a temporary folder, and again only if their own code
# changed: after a change of bert_tf remove docs/_build.
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True  # In the output of a build that failed.
nb_execution_timeout = 900  # Seconds for a cell.
# One block for the whole output of a command, and encryption between Sphinx and
# the notebook, which warns otherwise. Neither is among myst-nb's settings.
nbclient.NotebookClient.__init__ = functools.partialmethod(
    nbclient.NotebookClient.__init__, coalesce_streams=True
)
jupyter_client.KernelManager.transport_encryption.default_value = "auto"
# Notebooks run this Python, without TensorFlow's own messages.
os.environ["PATH"] = os.pathsep.join(
    [str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

highlight_language = "none"  # Blocks without a language: columns, output.
default_role = "code"  # Docstrings write `code` in single backticks.
# contrib/runtimes/predict.py imports the file that is copied beside it.
autodoc_mock_imports = ["tokenizer"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_inherit_docstrings = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # Attributes are fields that autodoc lists, too.
napoleon_custom_sections = [("Call arguments", "params_style")]

html_theme = "sphinx_book_theme"
html_theme_options = {
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "navbar_persistent": [],  # The sidebar has the search field.
}
# Pages of source code have no list of all pages, which takes long to write.
html_sidebars = {
    "_modules/**": ["navbar-logo.html", "search-button-field.html"]
}
html_copy_source = False
html_show_sphinx = False


def highlight_sources(app) -> list:
    """Sets the language of the pages of source code, the last to be written."""
    app.config.highlight_language = "python"
    return []  # No more pages.


def setup(app):
    """Checks pictures; writes generated pages; connects what adapts them."""
    # Two processes take twice as long as one: each copies and sends all pages.
    app.parallel = 1
    pictures.check()
    generated_pages.write(FOLDER / "reference")
    other_libraries.use_public_names()
    app.connect("autodoc-process-docstring", generated_pages.adapt_docstring)
    app.connect("autodoc-process-signature", generated_pages.adapt_signature)
    app.connect("html-collect-pages", highlight_sources, priority=400)
