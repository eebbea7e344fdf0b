"""From task parameters to a task: every parameter is honoured, noted as without effect, or refused by its name.

Source: panda-server, ``jedirefine/TaskRefinerBase.py``, ``RefinerUtils.py``; PanDA data model, tasks and split rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker.errors import did_you_mean
from broker.formats.model.sss.submission import SubmitTerms
from broker.matching.specs.spec import JobSpecs
from broker.tasks.model.catalogue import DATASETS_FOR_STREAM, HONOURED, ONE_OF_ITS_NAME, REFUSED, WITHOUT_EFFECT
from broker.tasks.model.datasets import Items, read_items
from broker.tasks.model.placeholders import NUMBERS, Placeholder, Template, parse_template
from broker.tasks.model.task import DEFAULT_ATTEMPTS, PSEUDO_MASTER, InputPlan, RefinedTask
from broker.tasks.model.values import BadParameter

ANALYSIS_LABELS = ("user", "panda")
DEFAULT_PRIORITY, DEFAULT_GB, DEFAULT_EFFICIENCY, DEFAULT_BASE_WALLTIME_S = 1000, 20, 90, 600
MOST_ROWS = 10_000_000
_NETWORK = {"full": 1, "http": 2, "IPv4": 4, "IPv6": 6}
_LONGEST_RULE = 200


@dataclass(frozen=True)
class Submitter(SubmitTerms):
    """What is stated apart from the parameters: VO and label count where the parameters name none.

    Attributes:
        count: jobs of a task without input; None: the parameters say it.
        may_ask_for_one_name: whether ``uniqueTaskName`` has an effect, as it has for tasks of panda-client.
    """

    count: int | None = None
    may_ask_for_one_name: bool = False


def refine(given: Mapping[str, Any], submitter: Submitter) -> RefinedTask:
    """The task that task parameters describe.

    Raises:
        BadParameter: one of them cannot be used, or is not known.
    """
    present = {name: value for name, value in given.items() if value is not None}
    notes = _known(present, submitter)
    read = {name: HONOURED[name].read(name, value) for name, value in present.items() if name in HONOURED}
    read = _counted(read, submitter)
    items = read_items(present)
    inputs = _inputs(read, items)
    columns = _columns(read, submitter)
    parsed = parse_template("jobParameters", items.template)
    _check_placeholders(parsed, inputs, items, read)
    columns["splitrule"] = _split_rule(read, inputs, columns["prodsourcelabel"] in ANALYSIS_LABELS)
    specs = JobSpecs(read["matchingSpecs"], str(columns["vo"]).lower()) if "matchingSpecs" in read else None
    attempts = 1 if read.get("disableAutoRetry") else read.get("maxAttempt", DEFAULT_ATTEMPTS)
    return RefinedTask(
        columns,
        dict(given),
        inputs,
        tuple(items.outputs),
        items.template,
        parsed,
        items.seed_offset,
        items.event_offset,
        attempts,
        read.get("maxFailure"),
        read.get("nFiles"),
        read.get("nEvents"),
        read.get("nEventsPerFile"),
        read.get("parentTaskID", read.get("parent_tid", read.get("parentTaskName"))),
        bool(read.get("waitInput")),
        bool(read.get("noWaitParent")),
        bool(read.get("runUntilClosed")),
        (*notes, *_output_notes(items), *(() if specs is None else (specs.words,))),
        specs,
    )


def _known(present: Mapping[str, Any], submitter: Submitter) -> tuple[str, ...]:
    """Notes on parameters without effect.

    Raises:
        BadParameter: a parameter is refused, or not known.
    """
    without_effect = []
    for name, value in present.items():
        if name in HONOURED or DATASETS_FOR_STREAM.fullmatch(name):
            continue
        if name == ONE_OF_ITS_NAME and submitter.may_ask_for_one_name:
            continue
        if name in WITHOUT_EFFECT:
            without_effect.append(f"{name} ({WITHOUT_EFFECT[name]})")
        elif name in REFUSED:
            if value not in (False, 0, "", [], {}):
                why, remedy = REFUSED[name]
                raise BadParameter(name, value, why, remedy)
        else:
            known = [*HONOURED, *WITHOUT_EFFECT, *REFUSED]
            raise BadParameter(
                name, value, "no such task parameter is known", did_you_mean(name, known, "leave it out")
            )
    return (f"without effect: {', '.join(without_effect)}",) if without_effect else ()


def _counted(read: Mapping[str, Any], submitter: Submitter) -> dict[str, Any]:
    """The parameters, with ``--count`` as that many jobs without input."""
    if submitter.count is None:
        return dict(read)
    for name in ("nFiles", "nEvents"):
        if name in read and read[name] != submitter.count:
            raise BadParameter(name, read[name], f"--count says {submitter.count} jobs", f"leave out {name} or --count")
    parameters = {name: value for name, value in read.items() if name not in ("nEvents", "nEventsPerJob")}
    return {**parameters, "noInput": True, "nFiles": submitter.count, "nFilesPerJob": 1}


def _inputs(read: Mapping[str, Any], items: Items) -> tuple[InputPlan, ...]:
    inputs = list(items.inputs)
    if read.get("noInput"):
        dataset = next((plan for plan in inputs if not plan.pseudo), None)
        if dataset is not None:
            remedy = "leave out noInput (or --count), or the dataset"
            raise BadParameter(dataset.field, dataset.name, "the task has no input, and reads a dataset", remedy)
        master = InputPlan("noInput", PSEUDO_MASTER, "PSEUDO", pseudo=True, wanted=_rows(read))
        inputs = [master, *(replace(plan, is_master=False, attributes=("np=1",)) for plan in inputs)]
    if not inputs:
        remedy = "name a dataset in jobParameters, or write noInput: true with nFiles, or --count"
        raise BadParameter(
            "jobParameters", None, "the task has no input, and nothing says how many jobs it has", remedy
        )
    if read.get("reuseSecOnDemand"):
        inputs = [plan if plan.is_master or plan.pseudo else _reusable(plan) for plan in inputs]
    masters = [plan for plan in inputs if plan.is_master]
    if len(inputs) > len(masters) > 1:
        raise several_primaries(inputs[-1])
    if masters[0].pseudo and masters[0].wanted is None:
        masters[0] = replace(masters[0], wanted=_rows(read))
        inputs = [masters[0], *inputs[1:]]
    return tuple(inputs)


def several_primaries(secondary: InputPlan) -> BadParameter:
    """The error for a secondary dataset, which goes with one primary dataset, where there are several."""
    remedy = "name one primary dataset, or the container without expand"
    return BadParameter(secondary.field, secondary.name, "a secondary goes with one primary dataset", remedy)


def _reusable(plan: InputPlan) -> InputPlan:
    return plan if "reusable" in plan.attributes else replace(plan, attributes=(*plan.attributes, "reusable"))


def _rows(read: Mapping[str, Any]) -> int:
    """Rows of a primary input that has no files."""
    if "nFiles" in read:
        rows = int(read["nFiles"])
    elif "nEvents" in read:
        rows = -(-int(read["nEvents"]) // int(read.get("nEventsPerJob", 1)))
    else:
        raise BadParameter("nFiles", None, "nothing says how many jobs there are", "write nFiles, or use --count")
    if rows > MOST_ROWS:
        raise BadParameter("nFiles", rows, f"a task has at most {MOST_ROWS} files", "submit several tasks")
    return rows


def _columns(read: Mapping[str, Any], submitter: Submitter) -> dict[str, Any]:
    columns = {HONOURED[name].target: value for name, value in read.items() if HONOURED[name].kind == "column"}
    label = columns.setdefault("prodsourcelabel", submitter.label)
    is_analysis = label in ANALYSIS_LABELS
    for name in ("taskName", "transPath"):
        if name not in read:
            raise BadParameter(name, None, "it is missing", f"write {name}")
    if submitter.user is not None:
        columns["username"] = submitter.user
    if submitter.nucleus is not None:
        columns["nucleus"] = submitter.nucleus
    columns.setdefault("username", "nobody")
    columns.setdefault("vo", submitter.vo)
    columns.setdefault("tasktype", "anal" if is_analysis else "prod")
    columns.setdefault("processingtype", "panda" if is_analysis else "simul")
    columns.setdefault("taskpriority", DEFAULT_PRIORITY)
    columns.setdefault("currentpriority", columns["taskpriority"])
    columns.setdefault("corecount", 1)
    columns.setdefault("cpuefficiency", DEFAULT_EFFICIENCY)
    columns.setdefault("basewalltime", DEFAULT_BASE_WALLTIME_S)
    for count, unit, default in _UNITS:
        if count in columns:
            columns.setdefault(unit, default)
    if "goal" in read:
        columns["goal"] = 10 * read["goal"]
    for name in ("includedSite", "excludedSite"):
        if read.get(name) and not is_analysis:
            raise BadParameter(name, read[name], "lists of queues are for tasks of users", "write site")
    waits = not is_analysis and columns.get("nucleus") is None
    return {**columns, "cloud": "WORLD", "superstatus": "submitted", "status": "assigning" if waits else "ready"}


_UNITS = (
    ("ramcount", "ramunit", "MB"),
    ("cputime", "cputimeunit", "HS06sPerEvent"),
    ("outdiskcount", "outdiskunit", "kB"),
    ("workdiskcount", "workdiskunit", "MB"),
    ("iointensity", "iointensityunit", "kBPerS"),
    ("diskio", "diskiounit", "kBPerS"),
)
"""Column, the column of its unit, and the unit where none is given."""


def _split_rule(read: Mapping[str, Any], inputs: tuple[InputPlan, ...], is_analysis: bool) -> str:
    tokens: dict[str, int] = {}
    for name, value in read.items():
        parameter = HONOURED[name]
        if parameter.kind != "token" or value is False:
            continue
        tokens[parameter.target] = (
            {"use": 1, "only": 2}.get(value, int(value)) if isinstance(value, str) else int(value)
        )
    if inputs[0].pseudo:
        # each of its rows is a job, or NF of them make one
        tokens = {key: value for key, value in tokens.items() if key not in ("NE", "NG", "MX")}
        tokens["NF"] = tokens.get("NF") or 1
    elif tokens.get("NF"):
        tokens.pop("NE" if "tgtNumEventsPerJob" in read and "nEventsPerJob" not in read else "", None)
    elif not {"NE", "NG"} & set(tokens):
        tokens.pop("NF", None)
        tokens["NG"] = DEFAULT_GB
    else:
        tokens.pop("NF", None)
    if "ipConnectivity" in read:
        network, _, stack = read["ipConnectivity"].partition("#")
        tokens |= {"IP": _NETWORK[network], **({"IK": _NETWORK[stack]} if stack else {})}
    if is_analysis and (read.get("includedSite") or read.get("excludedSite")):
        tokens["LS"] = (
            3 if read.get("includedSite") and read.get("excludedSite") else 1 if read.get("includedSite") else 2
        )
    rule = ",".join(f"{token}={value}" for token, value in tokens.items())
    if len(rule) > _LONGEST_RULE:
        raise BadParameter("nFilesPerJob", rule, "the split rule is too long", "leave out parameters that split")
    return rule


def _check_placeholders(parsed: Template, inputs: tuple[InputPlan, ...], items: Items, read: Mapping[str, Any]) -> None:
    streams = {one.stream: one for one in inputs if one.name != PSEUDO_MASTER}
    outputs = {one.stream for one in items.outputs}
    for one in parsed:
        if not isinstance(one, Placeholder):
            continue
        field = f"jobParameters {one.text}"
        if one.name == "SURL" and "sourceURL" not in read:
            raise BadParameter(field, None, "nothing says what it stands for", "write sourceURL")
        known = {*NUMBERS, "JEDITASKID", "SURL", *streams, *outputs}
        if one.name not in known or (one.name == "SEQNUMBER" and "SEQNUMBER" not in streams):
            remedy = did_you_mean(one.name, known - {"SEQNUMBER"}, f"known are {', '.join(sorted(known))}")
            raise BadParameter(field, None, "no job has such a value", remedy)
        if one.formula is not None and one.name in streams and not streams[one.name].pseudo:
            raise BadParameter(field, None, "a formula needs a number, and this is a file", "use ${SEQNUMBER} or ${SN}")


def _output_notes(items: Items) -> tuple[str, ...]:
    return () if items.outputs else ("no job writes a registered output: there is no item of param_type output or log",)
