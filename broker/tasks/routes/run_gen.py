#!/usr/bin/env python3
"""Runs the command of a task that panda-client's ``prun`` submitted: the transformation of its jobs.

The API serves this file as ``/trf/user/runGen``; it needs Python 3.8 and nothing else. The pilot calls it in the work
directory of the job, where it has put the input files, and takes the output files from there:

    ./runGen -j "" --sourceURL http://broker:25443 -r . -a jobO.UUID.tar.gz -i "['a.root', 'b.root']"
        -o "{'out.txt': 'user.me.1._000001.out.txt'}" -p "./run.sh%20%25IN%20%3E%20out.txt"

What it does: it fetches the archive (``-a``) from SOURCE_URL/cache/, unpacks it in a new directory, links the input
files into the run directory (``-r``) there, runs the command (``-p``) in a shell, with ``%IN`` replaced by the names of
the input files, and moves each output to the name that it has on the grid.

Its exit status is that of the command; otherwise: 2 an option cannot be used, 40 the archive cannot be had, 41 the
archive cannot be unpacked, 42 an input file is not there, 43 an output file was not written.
Source: panda-client 2.2.0, PrunScript (what it writes as job parameters).
"""

from __future__ import annotations

import argparse
import ast
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

BAD_OPTION, NO_ARCHIVE, BAD_ARCHIVE, NO_INPUT, NO_OUTPUT = 2, 40, 41, 42, 43
WORK = "runGen_work"
TRIES, PAUSE_S, LONGEST_S = 5, 5, 120
TOO_MANY_REQUESTS = 429
WAIT = threading.Event().wait


class Failed(Exception):
    """Ends the job: with which exit status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def options(arguments: list[str]) -> argparse.Namespace:
    """The options; those of ``prun`` that are not listed here end the job and are named."""
    parser = argparse.ArgumentParser(prog="runGen", allow_abbrev=False, description="Run the command of a prun task.")
    parser.add_argument("-j", default="", metavar="TEXT", help="put in front of the command of -p")
    parser.add_argument("-r", default=".", metavar="DIRECTORY", help="where to run, within the archive")
    parser.add_argument("-a", metavar="ARCHIVE", help="fetched from SOURCE_URL/cache/ and unpacked")
    parser.add_argument("-l", metavar="LIBRARY", help="an archive that is an input file, unpacked likewise")
    parser.add_argument("-o", default="{}", metavar="MAP", help="{'name in the run directory': 'name on the grid'}")
    parser.add_argument("-i", default="[]", metavar="LIST", help="['input file', ...]: %%IN of the command")
    parser.add_argument("--inMap", default="{}", metavar="MAP", help="{'IN2': ['input file', ...]}: %%IN2")
    parser.add_argument("-p", default="", metavar="COMMAND", help="percent-encoded; run in a shell")
    parser.add_argument("--sourceURL", default="", metavar="SOURCE_URL", help="address of the server")
    parser.add_argument("--writeInputToTxt", default="", metavar="IN:FILE,...", help="lists of input files, one a line")
    parser.add_argument("--allowNoOutput", default="", metavar="NAME,...", help="names on the grid that may be missing")
    parser.add_argument("--execWithRealFileNames", action="store_true", help="names on the grid in the command")
    return parser.parse_args(arguments)


def literal(option: str, text: str, kind: type) -> object:
    """A list or map as Python writes it; it is parsed, never run."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, kind):
        raise Failed(BAD_OPTION, f"{option} is no {kind.__name__}: {text[:200]}")
    return value


def input_files(given: argparse.Namespace) -> dict[str, list[str]]:
    """The input files of each stream; those of ``-i`` are IN, and those of ``--inMap`` count where both name one."""
    streams: dict[str, list[str]] = {}
    listed = literal("-i", given.i, list)
    if listed:
        streams["IN"] = [str(name) for name in listed]  # type: ignore[attr-defined]
    for stream, names in literal("--inMap", given.inMap, dict).items():  # type: ignore[attr-defined]
        streams[str(stream)] = [str(name) for name in names]
    return streams


def fetch(source_url: str, name: str, target: str, pause: Callable[[float], object] = WAIT) -> None:
    """Copy an archive of the server to ``target``; no token is needed, its name is the secret."""
    if not source_url or "/" in name:
        raise Failed(BAD_OPTION, f"-a {name} needs --sourceURL, and a plain name")
    address = f"{source_url.rstrip('/')}/cache/{urllib.parse.quote(name)}"
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(address, timeout=LONGEST_S) as answer, open(target, "wb") as file:  # noqa: S310
                shutil.copyfileobj(answer, file)
            return
        except (urllib.error.URLError, OSError) as error:
            print(f"runGen: {address}: {error} (try {attempt} of {TRIES})", flush=True)
            is_final = False
            if isinstance(error, urllib.error.HTTPError):
                error.close()
                is_final = error.code < 500 and error.code != TOO_MANY_REQUESTS
            if is_final or attempt == TRIES:
                raise Failed(NO_ARCHIVE, f"{address} cannot be had: {error}") from error
            pause(PAUSE_S * attempt)


def unpack(archive: str, folder: str) -> None:
    """Unpack an archive; nothing of it lands outside of ``folder``."""
    inside = os.path.realpath(folder)
    try:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                target = os.path.realpath(os.path.join(inside, member.name))
                if target != inside and not target.startswith(inside + os.sep):
                    raise Failed(BAD_ARCHIVE, f"{archive}: {member.name} would land outside")
            tar.extractall(inside)  # noqa: S202 - checked above; it is the user's own program
    except (tarfile.TarError, OSError, EOFError) as error:
        raise Failed(BAD_ARCHIVE, f"{archive} cannot be unpacked: {error}") from error


def link_inputs(streams: dict[str, list[str]], home: str, run_directory: str) -> None:
    """Have each input file in the run directory under its name."""
    for name in sorted({name for names in streams.values() for name in names}):
        there, here = os.path.join(home, name), os.path.join(run_directory, name)
        if "://" in name or os.path.exists(here):
            continue
        if not os.path.exists(there):
            raise Failed(NO_INPUT, f"input file {name} is not in {home}")
        os.symlink(there, here)


def write_lists(text: str, streams: dict[str, list[str]], run_directory: str) -> None:
    """Write the input files of streams into files: ``IN:in.txt,IN2:in2.txt``."""
    for one in filter(None, text.split(",")):
        stream, _, name = one.partition(":")
        if not name or stream not in streams:
            raise Failed(BAD_OPTION, f"--writeInputToTxt {one}: known streams are {', '.join(sorted(streams))}")
        with open(os.path.join(run_directory, name), "w", encoding="utf-8") as file:
            file.writelines(f"{entry}\n" for entry in streams[stream])


def command_of(given: argparse.Namespace, streams: dict[str, list[str]], outputs: dict[str, str]) -> str:
    """The command with its input files; longer names of streams first, so that %IN2 is not read as %IN."""
    command = " ".join(part for part in (given.j, urllib.parse.unquote(given.p)) if part)
    for stream in sorted(streams, key=len, reverse=True):
        command = command.replace(f"%{stream}", ",".join(streams[stream]))
    if given.execWithRealFileNames:
        for name, on_grid in outputs.items():
            command = command.replace(name, on_grid)
    return command


def run(command: str, run_directory: str) -> int:
    """The exit status of the command, run in a shell; of one that a signal ended it is 128 and the signal."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:."}
    print(f"runGen: {command}", flush=True)
    status = subprocess.call([shell, "-c", command], cwd=run_directory, env=environment)  # noqa: S603
    return 128 - status if status < 0 else status


def keep(name: str, on_grid: str, run_directory: str, home: str) -> bool:
    """Move an output to its name on the grid, where it was written; one with ``*`` is an archive of all that match."""
    target = os.path.join(home, on_grid)
    if "*" in name:
        matches = sorted(glob.glob(os.path.join(run_directory, name)))
        if matches:
            with tarfile.open(target, "w:gz") as tar:
                for one in matches:
                    tar.add(one, os.path.relpath(one, run_directory))
        return bool(matches)
    for written in (name, on_grid):  # the latter with --execWithRealFileNames
        if os.path.exists(os.path.join(run_directory, written)):
            shutil.move(os.path.join(run_directory, written), target)
            return True
    return False


def work(given: argparse.Namespace, home: str) -> int:
    """Run the job in ``home``; its exit status."""
    streams = input_files(given)
    outputs = {str(key): str(value) for key, value in literal("-o", given.o, dict).items()}  # type: ignore[attr-defined]
    if not (given.p or given.j):
        raise Failed(BAD_OPTION, "-p is empty: there is no command")
    folder = os.path.join(home, WORK)
    os.makedirs(folder, exist_ok=True)
    if given.a:
        fetch(given.sourceURL, given.a, os.path.join(home, given.a))
        unpack(os.path.join(home, given.a), folder)
        os.remove(os.path.join(home, given.a))
    if given.l:
        unpack(os.path.join(home, given.l), folder)
    run_directory = os.path.normpath(os.path.join(folder, given.r))
    if run_directory != folder and not run_directory.startswith(folder + os.sep):
        raise Failed(BAD_OPTION, f"-r {given.r} is not within the archive")
    os.makedirs(run_directory, exist_ok=True)
    link_inputs(streams, home, run_directory)
    write_lists(given.writeInputToTxt, streams, run_directory)
    status = run(command_of(given, streams, outputs), run_directory)
    if status != 0:
        raise Failed(status, f"the command ended with exit status {status}")
    may_be_missing = given.allowNoOutput.split(",")
    for name, on_grid in outputs.items():
        if not keep(name, on_grid, run_directory, home) and on_grid not in may_be_missing:
            there = ", ".join(sorted(os.listdir(run_directory))[:20])
            raise Failed(NO_OUTPUT, f"output {name} was not written; in the run directory are: {there}")
    shutil.rmtree(folder)
    return 0


def main(arguments: list[str]) -> int:
    """Run the job in the current directory; its exit status."""
    try:
        return work(options(arguments), os.getcwd())
    except Failed as failed:
        print(f"runGen: {failed}", file=sys.stderr, flush=True)
        return failed.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
