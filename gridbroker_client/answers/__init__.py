"""What the broker answers, as types; `make reference` writes it from the description of the API."""

from __future__ import annotations

from gridbroker_client.answers.decisions import TaskDecision, WhyNot
from gridbroker_client.answers.grid import Links, Nuclei, NucleusAnswer, Queues, Shares
from gridbroker_client.answers.jobs import JobAnswer, JobList
from gridbroker_client.answers.queues import QueueAnswer
from gridbroker_client.answers.service import Alarms, Me, Reasons, ServiceAnswer, UserAnswer
from gridbroker_client.answers.tasks import History, MessageList, TaskList, TaskSubscriptions

__all__ = [
    "Alarms",
    "History",
    "JobAnswer",
    "JobList",
    "Links",
    "Me",
    "MessageList",
    "Nuclei",
    "NucleusAnswer",
    "QueueAnswer",
    "Queues",
    "Reasons",
    "ServiceAnswer",
    "Shares",
    "TaskDecision",
    "TaskList",
    "TaskSubscriptions",
    "UserAnswer",
    "WhyNot",
]
