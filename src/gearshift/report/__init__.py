"""Measurements written up: one self-contained HTML page, or Markdown for a forum post."""

from gearshift.report.assembly import assemble
from gearshift.report.documents import Experiment, read_documents
from gearshift.report.html import to_html
from gearshift.report.markdown import to_markdown

__all__ = ["Experiment", "assemble", "read_documents", "to_html", "to_markdown"]
