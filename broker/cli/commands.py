"""The commands of ``broker`` by name. None is imported before it is wanted: a shell completes and helps at once."""

from __future__ import annotations

COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "broker.simulation.commands.demo:demo", "Broker a whole example grid, from start to finish."),
    ("serve", "broker.service.commands.serve:serve", "Run all agents on their schedules, until stopped."),
    ("api", "broker.service.commands.api:api", "Serve the HTTP API in a process of its own."),
    ("run", "broker.service.commands.run:run", "Run one cycle of one agent."),
    ("agents", "broker.service.commands.agents:agents", "What runs, when, the last outcome, and who holds the lease."),
    (
        "doctor",
        "broker.service.commands.doctor:doctor",
        "Rights, missing columns, ages, clocks, and who does the same work.",
    ),
    ("pause", "broker.service.commands.pause:pause", "Let an agent, or all, start no cycle until some time."),
    ("resume", "broker.service.commands.pause:resume", "End a pause."),
    (
        "alarms",
        "broker.service.commands.alarms:alarms",
        "What is stale, overdue, refused, starving, flapping or failing.",
    ),
    ("tasks", "broker.history.commands.tasks:tasks", "The tasks, those that wait first, with why."),
    ("reasons", "broker.history.commands.reasons:reasons", "What waits, by reason, most frequent first."),
    ("queues", "broker.grid.commands.queues:queues", "All queues: what they got, and what rejected them."),
    ("nucleus", "broker.grid.commands.nucleus:nucleus", "What a nucleus collects, or all of them."),
    ("links", "broker.grid.commands.links:links", "Links to nuclei, with the files queued on them."),
    ("shares", "broker.grid.commands.shares:shares", "Global shares: target, running, waiting."),
    ("user", "broker.history.commands.user:user", "A user's tasks, throttles and quota."),
    (
        "explain",
        "broker.decisions.commands.explain:explain",
        "The last decision about a task, with reasons and weights.",
    ),
    ("why-not", "broker.decisions.commands.explain:why_not", "Why a queue was not chosen for a task."),
    ("history", "broker.history.commands.history:history", "What happened to one task, and what changed beside it."),
    ("story", "broker.history.commands.history:history", "The same as history."),
    (
        "shadow",
        "broker.alongside.commands.shadow:shadow",
        "Our decisions beside what JEDI really did, by rule, queue and share.",
    ),
    ("replay", "broker.decisions.commands.replay:replay", "Decide again what was decided, and compare to the byte."),
    (
        "snapshot",
        "broker.grid.commands.snapshot:app",
        "What is kept of the grid: list, show, export to a file, import.",
    ),
    ("timeouts", "broker.lifecycle.commands.timeouts:timeouts", "Which jobs have waited or run for too long, by rule."),
    (
        "why-timeout",
        "broker.lifecycle.commands.timeouts:why_timeout",
        "When each timeout rule fires for a job, and why not.",
    ),
    ("match", "broker.pools.commands.match:match", "Which queues take a requirement, which refuse it, and why."),
    (
        "classes",
        "broker.grid.commands.classes:classes",
        "Classes of queues, users and tasks; usage of shares; their age.",
    ),
    ("rules", "broker.decisions.commands.rules:rules", "The ordered rules of a brokerage."),
    ("what-if", "broker.whatif.commands.what_if:what_if", "What would have been decided with other values or rules."),
    ("sweep", "broker.whatif.commands.sweep:sweep", "What would have been decided with each value of a grid."),
    ("simulate", "broker.simulation.commands.simulate:simulate", "Policies compared on a simulated grid, over seeds."),
    ("config", "broker.tuning.commands.config:app", "List, read and set tuning values."),
    (
        "features",
        "broker.formats.commands.features:app",
        "Machine/Job Features: read, report, publish, announce a shutdown.",
    ),
    (
        "job-status",
        "broker.formats.commands.job_status:app",
        "Job status (J2M): write, read, and rank jobs to vacate.",
    ),
    ("sss", "broker.formats.commands.sss:app", "Jobs as SSS Job Objects: validate, show, import, export."),
    ("pool", "broker.pools.commands.pool:app", "SubmitPools: what jobs require, and which queues meet it."),
    ("match-job", "broker.pilots.commands.match_job:match_job", "One job for a pilot, or why there is none."),
    ("submit", "broker.tasks.commands.submit:submit", "Submit jobs from a file, by its kind."),
    ("task", "broker.tasks.commands.task:app", "Tasks: submit them from task parameters."),
    (
        "import",
        "broker.feeds.commands.imports:app",
        "Import facts of the grid by hand: CRIC, Rucio, network, workers; their log.",
    ),
    ("queue", "broker.feeds.commands.queue:app", "What a queue gets and why not more, its history, and fields held."),
    ("completion", "broker.cli.completion:completion", "Print the completion script for bash, zsh or fish."),
    ("db", "broker.service.commands.db:app", "Install, upgrade, load, dump and reach the database."),
)
"""Name, ``module:attribute``, help. The attribute is a function (one command) or a ``typer.Typer`` (a group)."""

WATCHED = frozenset(
    {
        "agents", "alarms", "classes", "config history", "config list", "doctor", "history", "import log", "links",
        "nucleus", "pool list", "queue history", "queue show", "queues", "reasons", "shares", "snapshot list", "story",
        "tasks", "timeouts", "user",
    }
)  # fmt: skip
"""Commands that list things and change nothing: they have ``--watch``."""
