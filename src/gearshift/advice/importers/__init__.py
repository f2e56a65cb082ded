"""Other tools' configurations carried over, with a note for each thing that could not be."""

from gearshift.advice.importers.imported import Imported
from gearshift.advice.importers.ini_presets import import_ini_presets
from gearshift.advice.importers.llama_swap import import_llama_swap

__all__ = ["Imported", "import_ini_presets", "import_llama_swap"]
