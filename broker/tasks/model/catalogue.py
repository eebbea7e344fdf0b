"""The task parameters that are known: what each becomes, its unit, and those that decide nothing or are refused.

The page ``docs/reference/task-parameters.md`` is made from this table. Source: panda-server, ``jedirefine``
(``TaskRefinerBase``, ``RefinerUtils``); PanDA data model, tasks and split rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from broker.tasks.model.values import Reader, anything, choice, flag, names, node_specs, text, whole

Kind = Literal["column", "token", "task"]
"""A column of ``jedi_tasks``, a token of its split rule, or what is read as a whole by the refiner."""

WHOLE_GB = "write a whole number of GB, 1 or more, or nFilesPerJob or nEventsPerJob for smaller jobs"
HOURS = "write hours: 24, not 86400"
MEGABYTES = "write MB: 2000, not 2"
LEAST_RAM_MB, MOST_RAM_MB = 50, 10_000_000
MOST_HOURS = 720
_DISK = ("kB", "MB", "GB", *(f"{unit}{of}" for unit in ("kB", "MB", "GB") for of in ("PerEvent", "Fixed")))
_CPU = ("HS06sPerEvent", "mHS06sPerEvent", "HS06sPerEventFixed", "mHS06sPerEventFixed")
_NETWORKS = ("full", "http", "full#IPv4", "full#IPv6", "http#IPv4", "http#IPv6")
DATASETS_FOR_STREAM = re.compile(r"dsFor([A-Z][A-Z0-9_]*)")


@dataclass(frozen=True)
class Parameter:
    """A parameter that is honoured.

    Attributes:
        name: of the parameter.
        kind: what it becomes.
        target: the column or the token; words where it is neither.
        read: checks a value.
        meaning: with unit and default, for the page.
    """

    name: str
    kind: Kind
    target: str
    read: Reader
    meaning: str


def _column(name: str, column: str, read: Reader, meaning: str) -> Parameter:
    return Parameter(name, "column", column, read, meaning)


def _token(name: str, token: str, read: Reader, meaning: str) -> Parameter:
    return Parameter(name, "token", token, read, meaning)


def _task(name: str, target: str, read: Reader, meaning: str) -> Parameter:
    return Parameter(name, "task", target, read, meaning)


_COUNT = whole(1)
_HONOURED = (
    _column("taskName", "taskname", text(256), "Name of the task; needed. `$JEDITASKID` is replaced."),
    _column("userName", "username", text(128), "Who owns it; the submitter where that is known."),
    _column("vo", "vo", text(32), "Virtual organisation."),
    _column("prodSourceLabel", "prodsourcelabel", text(20), "`managed` for production, `user` for analysis."),
    _column("taskType", "tasktype", text(64), "`prod` or `anal` by the label."),
    _column("processingType", "processingtype", text(64), "Kind of processing, for shares and monitoring."),
    _column("taskPriority", "taskpriority", whole(0, 100_000), "Priority [1000]."),
    _column("currentPriority", "currentpriority", whole(0, 100_000), "Priority now [taskPriority]."),
    _column("architecture", "architecture", text(256), "Platform and hardware that the jobs need."),
    _column("transUses", "transuses", text(64), "Release."),
    _column("transHome", "transhome", text(128), "Package and cache."),
    _column("transPath", "transpath", text(128), "What the pilot runs: a path or an address; needed."),
    _column("container_name", "container_name", text(200), "Container image that the payload runs in."),
    _column("workingGroup", "workinggroup", text(32), "Group that it is for."),
    _column("countryGroup", "countrygroup", text(20), "Country group."),
    _column("campaign", "campaign", text(32), "Campaign."),
    _column("requestType", "requesttype", text(32), "Kind of request."),
    _column("reqID", "reqid", whole(0), "Number of the request [number of the task]."),
    _column("gshare", "gshare", text(32), "Global share."),
    _column("nucleus", "nucleus", text(52), "Nucleus that the output goes to [the task brokerage chooses]."),
    _column("site", "site", text(60), "Only these queues, between commas."),
    _column("coreCount", "corecount", whole(0, 1024), "Cores of a job [1]; 0: any number."),
    _column("ramCount", "ramcount", whole(LEAST_RAM_MB, MOST_RAM_MB, unit="MB", hint=MEGABYTES), "Memory in MB."),
    _column("ramUnit", "ramunit", choice("MB", "MBPerCore", "MBPerCoreFixed"), "Unit of ramCount [MB]."),
    _column("ramCountUnit", "ramunit", choice("MB", "MBPerCore", "MBPerCoreFixed"), "The same as ramUnit."),
    _column("baseRamCount", "baseramcount", whole(0, MOST_RAM_MB, unit="MB"), "Memory beside that of the cores."),
    _column("walltime", "walltime", whole(0), "Seconds for each MB of input; walltimeUnit decides."),
    _column("walltimeUnit", "walltimeunit", text(32), "Unit of walltime."),
    _column("baseWalltime", "basewalltime", whole(0, 30 * 86_400, unit="s"), "Seconds before the first event [600]."),
    _column("cpuTime", "cputime", whole(0), "CPU time of an event; cpuTimeUnit decides."),
    _column("cpuTimeUnit", "cputimeunit", choice(*_CPU), "Unit of cpuTime [HS06sPerEvent]."),
    _column("cpuEfficiency", "cpuefficiency", whole(0, 100, unit="%"), "CPU time over walltime in percent [90]."),
    _column("outDiskCount", "outdiskcount", whole(0), "Output for each event or MB of input [0]; see outDiskUnit."),
    _column("outDiskUnit", "outdiskunit", choice(*_DISK), "Unit of outDiskCount."),
    _column("workDiskCount", "workdiskcount", whole(0), "Scratch space of a job [0]."),
    _column("workDiskUnit", "workdiskunit", choice("kB", "MB", "GB"), "Unit of workDiskCount."),
    _column("ioIntensity", "iointensity", whole(0, unit="kB/s"), "Input and output over walltime in kB/s."),
    _column("ioIntensityUnit", "iointensityunit", choice("kBPerS"), "Unit of ioIntensity."),
    _column("diskIO", "diskio", whole(0, unit="kB/s"), "Local disk traffic in kB/s."),
    _column("diskIOUnit", "diskiounit", choice("kBPerS"), "Unit of diskIO."),
    _token("nMaxFilesPerJob", "MF", _COUNT, "Most input files of a job [200]."),
    _token("nFilesPerJob", "NF", whole(0), "Input files of a job; 0: as many as fit."),
    _token("nGBPerJob", "NG", whole(1, 100_000, unit="GB", hint=WHOLE_GB), "Most GB of a job: input, output, scratch."),
    _token("nEventsPerJob", "NE", _COUNT, "Most events of a job."),
    _token("tgtNumEventsPerJob", "NE", _COUNT, "The same as nEventsPerJob, without nFilesPerJob."),
    _token("maxEventsPerJob", "MX", _COUNT, "Most events of a job that is cut by another rule."),
    _token("maxWalltime", "MW", whole(1, MOST_HOURS, unit="hours", hint=HOURS), "Longest walltime of a job in hours."),
    _token("maxCoreCount", "CC", whole(1, 1024), "Most cores of a job where coreCount is 0."),
    _token("t1Weight", "TW", whole(-1000, 1000), "Weight of the nucleus."),
    _token("noWaitParent", "NW", flag, "Starts with its parent: with the first file that the parent writes."),
    _token("waitInput", "WI", flag, "Waits for input datasets that do not exist yet."),
    _token("runUntilClosed", "RC", flag, "Takes files that are added until the input dataset is closed."),
    _token("allowInputLAN", "IL", choice("use", "only"), "Input is read directly over LAN."),
    _token("allowInputWAN", "IW", flag, "Input may be read from elsewhere."),
    _token("useLocalIO", "LI", flag, "Input is copied to the worker node."),
    _token("inputPreStaging", "IS", flag, "Input is staged from tape."),
    _token("avoidVP", "AV", flag, "No queue with virtual placement."),
    _token("disableAutoRetry", "DR", flag, "One attempt a file."),
    _task("maxAttempt", "attempts a file", whole(1, 100), "Attempts at each file [3]."),
    _task("maxFailure", "failures a file", whole(1, 100), "Failures of each file before it is given up [maxAttempt]."),
    _task("nFiles", "rows of the primary input", _COUNT, "Files of the primary input at most; without input, rows."),
    _task("nEvents", "rows of the primary input", _COUNT, "Events of the primary input at most; without input, all."),
    _task("nEventsPerFile", "events a file", _COUNT, "Events of an input file of which nobody says any."),
    _task("noInput", "pseudo_dataset", flag, "No input: nFiles, or nEvents and nEventsPerJob, say how many jobs."),
    _task("goal", "goal", whole(1, 100, unit="%"), "Share of the input in percent that is enough."),
    _task("includedSite", "LS", names(128), "Only these queues (tasks of users)."),
    _task("excludedSite", "LS", names(128), "Not these queues (tasks of users)."),
    _task("taskBrokerOnMaster", "parameters", flag, "Only the primary input counts for the nucleus."),
    _task("reuseSecOnDemand", "attributes", flag, "Files of secondary datasets are used again when all were used."),
    _task("sourceURL", "`${SURL}`", text(500), "What `${SURL}` stands for."),
    _task("parentTaskID", "parent_tid", whole(1, 2**62), "The task that writes the input."),
    _task("parent_tid", "parent_tid", whole(1, 2**62), "The same as parentTaskID."),
    _task("parentTaskName", "parent_tid", text(256), "The same by name: the newest such task of the user."),
    _task("ipConnectivity", "IP, IK", choice(*_NETWORKS), "Network of worker nodes."),
    _task("cloud", "cloud", choice("WORLD", hint="leave it out: tasks are brokered for the whole grid"), "`WORLD`."),
    _task("matchingSpecs", "specs", node_specs, "What a job asks of its node: a spec of matchspec/1, or several."),
    _task("jobParameters", "template, datasets", anything, "What each job is called with, and its datasets."),
    _task("log", "dataset", anything, "The log dataset, like an item of jobParameters."),
)  # fmt: skip
HONOURED: Mapping[str, Parameter] = {one.name: one for one in _HONOURED}

_NOT_BUILT = "submit a program that is at the sites, in a container, or fetched by the payload; prun: --noBuild"
_NO_EVENTS = "the jobs of a task are made of files: use nFilesPerJob or nEventsPerJob"
_NOT_MERGED = "submit a second task that merges, with parentTaskID"
ONE_OF_ITS_NAME = "uniqueTaskName"
"""The user may have one task of the name only: honoured for tasks of panda-client, without effect elsewhere."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "cliParams": "the command line of the client",
    "osInfo": "the system that the client ran on",
    ONE_OF_ITS_NAME: "honoured for prun only; use a client request number: the same submission twice is one task",
    "respectSplitRule": "split rules always hold",
    "messageDriven": "jobs are made in every cycle",
    "pushStatusChanges": "states are read from the API",
    "skipScout": "tasks begin without scout jobs",
    "allowPartialFinish": "a task of which some files failed ends as finished anyway",
    "useRealNumEvents": "the events that the catalogue names count",
    "ttcrTimestamp": "no time of completion is asked for",
    "cloudAsVO": "the VO has its own column",
    "ticketID": "tickets are not linked",
    "ticketSystemType": "tickets are not linked",
    "mergeCoreCount": "nothing is merged here",
    "noEmail": "nobody is sent mail",
    "noLoopingCheck": "jobs that loop are left to the pilot",
    "framework": "the framework of the payload is not counted",
}
"""Parameter and why nothing depends on it; a note says so."""
REFUSED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("mergeOutput", "mergeSpec"), ("the outputs of a task are not merged here", _NOT_MERGED)),
    **dict.fromkeys(("buildSpec", "preproSpec"), ("no job is run before the others here", _NOT_BUILT)),
    **dict.fromkeys(
        ("nEventsPerWorker", "useJobCloning", "fineGrainedProc", "nJumboJobs", "notDiscardEvents", "dynamicNumEvents"),
        ("the event service is not served here", _NO_EVENTS),
    ),
    **dict.fromkeys(
        (
            "hpoWorkflow",
            "segmentedWork",
            "loadXML",
            "pfnList",
            "multiStepExec",
            "nEventsPerInputFile",
            "totNumJobs",
            "maxNumJobs",
        ),
        ("this way to run jobs is not known here", "submit without it"),
    ),
    **dict.fromkeys(
        ("respectLumiblock", "groupBoundaryID", "releasePerLB", "orderByLB"),
        ("lumi blocks and boundaries of files are not known here", "use nFilesPerJob or nEventsPerJob"),
    ),
    "forceStaged": ("it is the opposite of allowInputLAN", "write useLocalIO: true"),
    "addNthFieldToLFN": ("names of output have no fields of input", "use ${SN} in the name"),
    "useScout": ("tasks begin without scout jobs", "submit a small task first"),
}
"""Parameter, why it is refused, and what to do instead."""
