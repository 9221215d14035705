"""Sphinx's settings for the documentation site; scripts/build-docs makes the pages that it reads."""

import os

from pygments.lexers.sql import PostgresLexer

project = "pawl"
author = "pawl contributors"
version = release = os.environ.get("PAWL_VERSION", "")
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"pawl {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False}
highlight_language = "none"
# Links between pages name the anchors that forges make of headings.
myst_heading_anchors = 4
# psql's own commands in an example are no SQL; the rest of the example is coloured nevertheless.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app):
    """SQL is PostgreSQL's here."""
    app.add_lexer("sql", PostgresLexer)
