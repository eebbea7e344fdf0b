#!/usr/bin/env python3
# ruff: noqa: D103, S310, S603, S607
"""A plain pilot: runs jobs of a queue and reports, until there are none. plain_pilot.py URL QUEUE TOKEN-FILE."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
import uuid
import zlib
from pathlib import Path

URL, QUEUE, TOKEN = sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text().strip()
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
        post(
            "/api/v1/pilot/update_worker_status", json.dumps({**WORKER, "status": status}).encode(), "application/json"
        )


def run(job: dict) -> None:
    about = {
        "jobId": job["PandaID"],
        "attemptNr": job.get("attemptNr", 0),
        "siteName": QUEUE,
        "node": os.uname().nodename,
    }
    stop = threading.Event()
    panda("updateJob", state="running", **about)
    with subprocess.Popen(["sh", "-c", f"{job['transformation']} {job.get('jobPars', '')}"]) as payload:

        def beat() -> None:
            while not stop.wait(60):
                if panda("updateJob", state="running", **about).get("command") == "tobekilled":
                    payload.kill()

        threading.Thread(target=beat, daemon=True).start()
        code = payload.wait()
    stop.set()
    written = {}
    for name in filter(None, job.get("outFiles", "").split(",")):
        content = Path(name).read_bytes() if Path(name).is_file() else b""
        written[name] = {"guid": str(uuid.uuid4()), "fsize": len(content), "adler32": f"{zlib.adler32(content):08x}"}
    end = {"state": "finished", "xml": json.dumps(written)} if code == 0 else {"state": "failed", "transExitCode": code}
    panda("updateJob", **about, **end, **({"pilotErrorCode": 1305} if code else {}))


worker_says("started")
asked = {"siteName": QUEUE, "prodSourceLabel": "unified", "node": os.uname().nodename}
asked |= {"harvester_id": WORKER["harvester_id"], "worker_id": WORKER["worker_id"]} if WORKER["worker_id"] else {}
while "PandaID" in (job := panda("getJob", **asked)):
    run(job)
    if "--once" in sys.argv:
        break
worker_says("finished")
