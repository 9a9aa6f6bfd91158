"""Markdown in docs/, docstrings and flags -> the documentation site.

`make docs` builds it. Pages of scripts and modules are written anew before each
build, so that the reference and the code cannot differ.
"""

import functools
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import generated_pages  # noqa: E402  After sys.path.
import jupyter_client  # noqa: E402
import nbclient  # noqa: E402

project = "bert_tf"
author = "the bert_tf authors"
html_title = "bert_tf"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False  # Docstrings name types in words, such as "[B, S] int32".

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
# Their processes run this Python, and without TensorFlow's own messages.
os.environ["PATH"] = os.pathsep.join(
    [str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

highlight_language = "none"  # Blocks without a language: columns, output.
default_role = "code"  # Docstrings write `code` in single backticks.
# export/runtimes/predict.py imports the file that is copied beside it.
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
html_copy_source = False
html_show_sphinx = False


def setup(app):
    """Writes the generated pages, and lets docstrings show aligned columns."""
    generated_pages.write(FOLDER / "reference")
    app.connect("autodoc-process-docstring", generated_pages.adapt_docstring)
