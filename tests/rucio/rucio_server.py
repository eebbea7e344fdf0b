"""A Rucio server on SQLite, run with the Python of an environment that has the package ``rucio``.

``python rucio_server.py FOLDER PORT PLACEMENTS`` creates the configuration and, if missing, the database in FOLDER,
serves at PORT (0: a free port), and prints the port once it serves. PLACEMENTS is the address of the service for
virtual placements. Source: Rucio documentation, installing a server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CONFIGURATION = """
[common]
logdir = {folder}
loglevel = WARNING

[client]
rucio_host = http://127.0.0.1:{port}
auth_host = http://127.0.0.1:{port}
auth_type = userpass
username = broker
password = secret
account = root
request_retries = 1
auth_token_file_path = {folder}/token

[database]
default = sqlite:///{folder}/rucio.db

[bootstrap]
userpass_identity = broker
userpass_pwd = secret
userpass_email = broker@example.org

[policy]
permission = generic
schema = generic

[virtual_placement]
vp_endpoint = {placements}

[alembic]
cfg = {folder}/alembic.ini
"""
ALEMBIC = """
[alembic]
script_location = {migrations}
sqlalchemy.url = sqlite:///{folder}/rucio.db
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = plain
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
level = NOTSET
formatter = plain
[formatter_plain]
format = %(message)s
"""


def prepare(folder: Path, port: int, placements: str) -> None:
    """Write the configuration, and create the database if it does not exist."""
    import importlib.util

    package = importlib.util.find_spec("rucio")
    migrations = Path(next(iter(package.submodule_search_locations))) / "db" / "sqla" / "migrate_repo"
    (folder / "rucio.cfg").write_text(CONFIGURATION.format(folder=folder, port=port, placements=placements))
    (folder / "alembic.ini").write_text(ALEMBIC.format(folder=folder, migrations=migrations))
    os.environ["RUCIO_CONFIG"] = str(folder / "rucio.cfg")
    import rucio.common.schema  # noqa: F401 - before the rest: the modules import each other

    if not (folder / "rucio.db").exists():
        from rucio.db.sqla import util

        util.build_database()
        util.create_base_vo()
        util.create_root_account()


def main(folder: Path, port: int, placements: str) -> None:
    """Serve until the process is ended."""
    import socket

    if port == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    prepare(folder, port, placements)
    from rucio.web.rest.flaskapi.v1.main import application
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", port, application, threaded=True)
    print(port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
