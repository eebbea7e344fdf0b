#!/usr/bin/env python3
# ruff: noqa: D103, S310, S324, S603, S607
"""A plain pilot: runs jobs of a queue and reports, until there are none. plain_pilot.py URL QUEUE TOKEN-FILE [STORAGE].

STORAGE is a folder that all nodes see: input comes from it, and what jobs write goes into it, where Rucio looks for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
import uuid
import zlib
from pathlib import Path

GIVEN = [word for word in sys.argv[1:] if not word.startswith("--")]
URL, QUEUE, TOKEN = GIVEN[0], GIVEN[1], Path(GIVEN[2]).read_text().strip()
STORAGE = Path(GIVEN[3]) if len(GIVEN) > 3 else None
WORKER = {"worker_id": os.environ.get("HARVESTER_WORKER_ID", ""), "harvester_id": os.environ.get("HARVESTER_ID", "")}


def post(path: str, content: bytes, kind: str) -> dict:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, "Accept": "application/json"}
    for pause_s in (1, 2, 5, 10, 30, None):
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, content, headers), timeout=30) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            if pause_s is None:
                raise
            threading.Event().wait(pause_s)
    raise AssertionError


def panda(method: str, **fields: object) -> dict:
    return post(f"/server/panda/{method}", urllib.parse.urlencode(fields).encode(), "application/x-www-form-urlencoded")


def worker_says(status: str) -> None:
    if WORKER["worker_id"]:
        content = json.dumps({**WORKER, "status": status}).encode()
        post("/api/v1/pilot/update_worker_status", content, "application/json")


def in_storage(scope: str, name: str) -> Path:
    """The path of a file, as a deterministic RSE has it."""
    number = hashlib.md5(f"{scope}:{name}".encode()).hexdigest()
    folder = scope.replace(".", "/") if scope.startswith(("user", "group")) else scope
    return (STORAGE or Path()) / folder / number[:2] / number[2:4] / name


def fetch(job: dict, folder: Path) -> None:
    for scope, name in zip(job.get("scopeIn", "").split(","), job.get("inFiles", "").split(","), strict=False):
        if STORAGE and in_storage(scope, name).is_file():
            (folder / name).symlink_to(in_storage(scope, name))


def keep(job: dict, folder: Path, finished: bool) -> dict:
    """Put what was written into the storage; what is reported of it: of a job that failed, the log."""
    log, written, scopes = job.get("logFile", ""), {}, iter(job.get("scopeOut", "").split(","))
    for name in filter(None, job.get("outFiles", "").split(",")):
        scope = job.get("scopeLog", "") if name == log else next(scopes, "")
        if (folder / name).is_file() and (finished or name == log):
            content = (folder / name).read_bytes()
            checksum = f"{zlib.adler32(content):08x}"
            written[name] = {"guid": str(uuid.uuid4()), "fsize": len(content), "adler32": checksum}
            if STORAGE:
                in_storage(scope, name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, in_storage(scope, name))
    return written


def run(job: dict, folder: Path) -> None:
    about = {"jobId": job["PandaID"], "attemptNr": job.get("attemptNr", 0)}
    about |= {"siteName": QUEUE, "node": os.uname().nodename}
    stop, log = threading.Event(), folder / (job.get("logFile") or "payload.log")
    panda("updateJob", state="running", **about)
    fetch(job, folder)
    line = f"{job['transformation']} {job.get('jobPars', '')}"
    with log.open("wb") as said, subprocess.Popen(["sh", "-c", line], cwd=folder, stdout=said, stderr=said) as payload:

        def beat() -> None:
            while not stop.wait(60):
                if panda("updateJob", state="running", **about).get("command") == "tobekilled":
                    payload.kill()

        threading.Thread(target=beat, daemon=True).start()
        code = payload.wait()
    stop.set()
    end = {"state": "finished"}
    if code:
        diagnosis = log.read_text(errors="replace").strip()[-250:]
        end = {"state": "failed", "transExitCode": code, "pilotErrorCode": 1305, "pilotErrorDiag": diagnosis}
    panda("updateJob", **about, **end, xml=json.dumps(keep(job, folder, code == 0)))


worker_says("started")
asked = {"siteName": QUEUE, "prodSourceLabel": "unified", "node": os.uname().nodename}
asked |= {"harvester_id": WORKER["harvester_id"], "worker_id": WORKER["worker_id"]} if WORKER["worker_id"] else {}
while "PandaID" in (job := panda("getJob", **asked)):
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        run(job, Path(name))
    if "--once" in sys.argv:
        break
worker_says("finished")
