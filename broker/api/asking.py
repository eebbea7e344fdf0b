"""Names of :mod:`broker.api.state` for the rooms that still ask for them here."""

from __future__ import annotations

from broker.api.state import LARGEST_ID as LARGEST_ID
from broker.api.state import At as At
from broker.api.state import Moment as Moment
from broker.api.state import TaskId as TaskId
from broker.api.state import asking as asking
