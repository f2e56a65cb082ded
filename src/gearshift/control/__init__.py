"""The single writer: events in, effects out. It owns the scheduler, the residents and every lease."""

from gearshift.control.admin import ServerAdmin
from gearshift.control.jobs import Jobs
from gearshift.control.journal import Journal
from gearshift.control.lessons import Lessons
from gearshift.control.loop import Control
from gearshift.control.preparation import Lookups, Preparation
from gearshift.control.reloading import Reloading
from gearshift.control.residency import Dependencies

__all__ = [
    "Control",
    "Dependencies",
    "Jobs",
    "Journal",
    "Lessons",
    "Lookups",
    "Preparation",
    "Reloading",
    "ServerAdmin",
]
