"""Makes panda-server importable where there is no Oracle, no Rucio and no server: configuration, stand-ins, clock.

Call :func:`prepare` before anything of ``pandaserver`` or ``pandajedi`` is imported.
"""

from __future__ import annotations

import datetime
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
from pathlib import Path
from typing import Any

#: Modules that panda-server imports and that these tests never call; where they are installed, they are imported.
UNUSED = (
    "oracledb",
    "MySQLdb",
    "stomp",
    "polars",
    "idds",
    "idds.atlas",
    "idds.client",
    "idds.client.client",
    "idds.client.clientmanager",
    "idds.common",
    "idds.common.constants",
    "idds.common.utils",
    "idds.workflow",
    "idds.workflow.workflow",
    "idds.workflowv2",
    "idds.workflowv2.workflow",
    "atlasidds",
    "requests_oauthlib",
    "fastapi",
    "elasticsearch",
)

_COMMON = """
[logger]
loghost=localhost
monport-apache=1
method=GET
encoding=url
loghost_new=localhost
monport-apache_new=1
method_new=POST
encoding_new=json
migrated=True
rotating_policy=none
monurlprefix=/
logdir={logs}
nemitters=1
log_level=ERROR
"""
_SERVER = """
[server]
dbhost = {host}
dbport = {port}
dbuser = {user}
dbname = {database}
dbpasswd =
nDBConnection = 1
usedbtimeout = False
backend = postgres
dump_sql = False
schemaPANDA = doma_panda
schemaPANDAARCH = doma_pandaarch
schemaMETA = doma_pandameta
schemaJEDI = doma_panda
schemaDEFT = doma_deft
schemaGRISLI = doma_grisli
schemaEI = doma_ei
logdir = {logs}
cache_dir = {logs}
log_hostname = localhost
pserverhost = localhost
pserverport = 1
pserverporthttp = 1
pserverhosthttp = localhost
emailSender = nobody
adderPlugins = atlas:none:none
setupperPlugins = atlas:none:none
closerPlugins = atlas:none:none
def_sitestatus = online
def_queue = none
def_nodes = none
def_ddm = none
def_type = production
notifier = False
[daemon]
enable = False
"""
_JEDI = """
[master]
uname = nobody
gname = nogroup
loggername = jedi
[db]
dbhost = {host}
dbuser = {user}
dbpasswd =
dbname = {database}
nWorkers = 1
schemaJEDI = doma_panda
schemaDEFT = doma_deft
schemaPANDA = doma_panda
schemaPANDAARCH = doma_pandaarch
schemaMETA = doma_pandameta
[ddm]
modConfig = atlas:1:pandajedi.jediddm.AtlasDDMClient:AtlasDDMClient
voWithScope = atlas
endpoints_json_path = {logs}/endpoints.json
user_scope_in_lowercase = True
[jobbroker]
modConfig = atlas:any:pandajedi.jedibrokerage.AtlasProdJobBroker:AtlasProdJobBroker,atlas:user:pandajedi.jedibrokerage.AtlasAnalJobBroker:AtlasAnalJobBroker
[taskbroker]
modConfig = atlas:managed|test:pandajedi.jedibrokerage.AtlasProdTaskBroker:AtlasProdTaskBroker
procConfig = atlas:managed:1
nWorkers = 1
loopCycle = 600
[jobgen]
procConfig = atlas:managed|test:1:any
nTasks = 50
nFiles = 5000
nWorkers = 5
loopCycle = 10
lockInterval = 5
typicalNumFile = :::logmerge:1000000
[taskrefine]
modConfig = atlas:any:pandajedi.jedirefine.GenTaskRefiner:GenTaskRefiner
procConfig = ::1
nWorkers = 1
loopCycle = 10
[jobthrottle]
modConfig = atlas:any:pandajedi.jedithrottle.AtlasProdJobThrottler:AtlasProdJobThrottler
[msgprocessor]
[mq]
[watchdog]
waitForPending = 60
[confeeder]
nWorkers = 1
[tcommando]
nWorkers = 1
[taskgen]
modConfig =
[tasksetup]
modConfig = atlas:any:pandajedi.jedisetup.GenTaskSetupper:GenTaskSetupper
[postprocessor]
modConfig =
"""  # noqa: E501 - one entry is one line


class Clock:
    """What PanDA takes for the current time."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 8, 1, 12)

    def utcnow(self) -> datetime.datetime:
        """Naive UTC, as PanDA's own function gives it."""
        return self.now


CLOCK = Clock()


class _AnyClass(type):
    """Of classes that are configured while a module is imported: every setting is accepted."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class _Anything(types.ModuleType):
    """A module of which every name is a class; calling a thing of it is an error of the test."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "NUMBER":
            return int
        if name.endswith(("Error", "Exception", "NotFound", "Warning")):
            made: type = type(name, (Exception,), {"__module__": self.__name__})
        else:
            made = _AnyClass(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # the package around it is not there, or is a stand-in
        return False


def _stand_in(name: str) -> None:
    if name in sys.modules or _is_installed(name):
        return
    module = _Anything(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = module


class _QuietLogger:
    """PandaLogger without files and without a server to send to."""

    def getLogger(self, name: str, *_: Any, **__: Any) -> logging.Logger:
        """A logger of the standard library."""
        return logging.getLogger(f"panda.{name}")

    def __getattr__(self, _: str) -> Any:
        return lambda *args, **kwargs: None


def prepare(home: Path, *, host: str = "", port: int = 0, user: str = "", database: str = "") -> None:
    """Write PanDA's configuration to ``home`` and make its packages importable.

    Args:
        home: folder that becomes ``PANDA_HOME``.
        host: database server, or folder of its socket.
        port: of the server; 0 for PostgreSQL's own.
        user: account at the server.
        database: name of the database.
    """
    folder = home / "etc" / "panda"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"logs": home, "host": host, "port": port, "user": user, "database": database}
    for name, text in (("panda_common", _COMMON), ("panda_server", _SERVER), ("panda_jedi", _JEDI)):
        (folder / f"{name}.cfg").write_text(text.format(**values), encoding="utf-8")
    os.environ["PANDA_HOME"] = str(home)
    for name in UNUSED:
        _stand_in(name)
    from panda import rucio_stub

    rucio_stub.install()
    _replace_logger()
    _replace_clock()
    _short_names()
    _keep_logs_here()


def _keep_logs_here() -> None:
    from pandaserver.userinterface import Client

    Client.uploadLog = lambda text, task: (0, {"success": True, "message": "", "data": f"http://localhost/{task}"})


def _replace_logger() -> None:
    from pandacommon.pandalogger import PandaLogger

    PandaLogger.PandaLogger = _QuietLogger  # type: ignore[misc]


def _replace_clock() -> None:
    from pandacommon.pandautils import PandaUtils

    PandaUtils.naive_utcnow = CLOCK.utcnow


def _short_names() -> None:
    """JEDI imports two packages by names that its start script puts on the path."""
    import pandacommon.liveconfigparser
    import pandacommon.liveconfigparser.LiveConfigParser

    sys.modules.setdefault("liveconfigparser", pandacommon.liveconfigparser)
    sys.modules.setdefault("liveconfigparser.LiveConfigParser", pandacommon.liveconfigparser.LiveConfigParser)
    import pandaserver.taskbuffer
    import pandaserver.taskbuffer.DBProxyPool

    sys.modules.setdefault("taskbuffer", pandaserver.taskbuffer)
    sys.modules.setdefault("taskbuffer.DBProxyPool", pandaserver.taskbuffer.DBProxyPool)
