from __future__ import annotations

import sys
from pathlib import Path

import presage

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Presage"
author = "The Presage developers"
copyright = author
version = release = presage.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "generated"]
exclude_patterns = ["_build", "_ext", "results/data"]
# Pages made from docstrings start below the top level. Rooms may use the same word for things of their own (the
# variant of a plan, and that of a what-if), and a type in a signature is no link then.
suppress_warnings = ["myst.header", "ref.python"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "code"  # docstrings write code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
add_module_names = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Presage {release}"
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
