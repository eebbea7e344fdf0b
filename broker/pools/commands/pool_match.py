"""``broker pool match``: whether the node in a file meets the job in a file, and if not, what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.output import print_json, print_table
from broker.errors import WRONG_USAGE, BrokerError
from broker.matching.specs.judge import Verdict, judge
from broker.matching.specs.spec import PROFILES, V02, Profile
from broker.pools.answers.spec_files import read_job_specs, read_node_file, verdict_document


class NoSuchProfile(BrokerError):
    """No profile has this name."""

    exit_status = WRONG_USAGE


JobOfSpecs = Annotated[
    Path, typer.Argument(metavar="JOB", help="YAML or JSON with matching_specs or requirements; or JDL, CFG.")
]
NodeFile = Annotated[Path, typer.Argument(metavar="NODE", help="YAML or JSON of a node, as a pilot presents it.")]
ProfileName = Annotated[str, typer.Option("--profile", help=f"Whose rules: {', '.join(PROFILES)}.")]


def profile_named(name: str, *, distinct_arm: bool = False) -> Profile:
    """The profile with this name.

    Raises:
        NoSuchProfile: there is none.
    """
    if name not in PROFILES:
        raise NoSuchProfile(f"there is no profile {name!r}", "--profile", f"name one of {', '.join(PROFILES)}")
    return PROFILES[name].with_distinct_arm() if distinct_arm else PROFILES[name]


def match_files(
    job: JobOfSpecs,
    node: NodeFile,
    profile: ProfileName = V02.name,
    distinct_arm: Annotated[
        bool, typer.Option("--distinct-arm", help="arm64 and aarch64 are two architectures, not one.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object: match, spec, missed.")] = False,
) -> None:
    """Check whether a node meets the request of a job, by which of its specs, or what it lacks; reads no database.

    The exit status is 0 even if the job does not match, and 2 for a file that cannot be understood.
    """
    rules = profile_named(profile, distinct_arm=distinct_arm)
    specs, node_values = read_job_specs(job, rules), read_node_file(node, rules)
    verdict = judge(specs, node_values, rules)
    if as_json:
        print_json(verdict_document(verdict, rules))
    else:
        show_verdict(verdict, rules)


def show_verdict(verdict: Verdict, profile: Profile) -> None:
    """Print what the job gets, or what each spec misses."""
    if verdict.allotment is None:
        print("no match")
        rows = [
            (miss["spec"], miss["field"], miss["kind"], miss["asked"], miss["offered"])
            for miss in verdict_document(verdict, profile)["missed"]
        ]
        print_table(("spec", "field", "why", "asked", "offered"), rows)
        return
    allotment = verdict.allotment
    print(f"match by spec {verdict.spec}")
    columns = ("cores", "memory (MB)", "memory limit (MB)", "GPUs", "scratch (MB)")
    print_table(
        columns, [(allotment.cores, allotment.ram_mb, allotment.ram_limit_mb, allotment.gpus, allotment.scratch_mb)]
    )
