"""One process tree per engine: started, watched, and gone when it is said to be gone. Linux only; see design.md."""

from gearshift.supervisor.bound import start_bound
from gearshift.supervisor.keeper_handle import KeeperHandle
from gearshift.supervisor.launcher import LocalLauncher
from gearshift.supervisor.lock import StateLock
from gearshift.supervisor.orphans import Reaped, reap_orphans

__all__ = ["KeeperHandle", "LocalLauncher", "Reaped", "StateLock", "reap_orphans", "start_bound"]
