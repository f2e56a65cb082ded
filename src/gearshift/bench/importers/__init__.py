"""Other tools' result files, with their own definitions tagged and their invariants checked."""

from gearshift.bench.importers.imported import Imported, ImportedRow
from gearshift.bench.importers.keep import keep
from gearshift.bench.importers.reading import cross_check, read_file

__all__ = ["Imported", "ImportedRow", "cross_check", "keep", "read_file"]
