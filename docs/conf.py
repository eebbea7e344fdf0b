"""The documentation as a site: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from broker import __version__

project = "gridbroker"
author = "the gridbroker authors"
release = version = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# A link to a heading is one that the page has, and a reference to nothing is an error: `make docs` runs with -W.
nitpicky = True
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]

html_theme = "furo"
html_title = f"gridbroker {__version__}"
