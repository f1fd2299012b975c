"""Sphinx settings; `make docs` builds HTML and man pages with warnings as errors."""

from datetime import UTC, datetime
from pathlib import Path

project = "nova_sched"
copyright = f"{datetime.now(tz=UTC).year}, nova_sched developers"  # noqa: A001 - name given by Sphinx
root_doc = "index"
exclude_patterns = ["_generated/**"]

extensions = [
    "cliff.sphinxext",
    "openstackdocstheme",
    "oslo_config.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.autodoc",
]

html_theme = "openstackdocs"
# Not a project of OpenStack's own infrastructure: no bug tracker or version list of theirs.
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_use_storyboard = False
openstackdocs_bug_project = ""
openstackdocs_pdf_link = False

autodoc_typehints = "description"
autodoc_member_order = "bysource"

# One page in doc/source/cli per program; its first paragraph after the title is not needed, the name says enough.
man_pages = [
    (f"cli/{page.stem}", page.stem, f"{page.stem} of nova_sched", "nova_sched developers", 1)
    for page in sorted((Path(__file__).parent / "cli").glob("nova-sched*.rst"))
]
