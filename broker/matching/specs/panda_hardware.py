"""The architecture of a PanDA task at the node of a pilot, judged by the code that judges it at a queue.

Source: ATLAS Production Job Brokerage, checks for CPU and/or GPU hardware; PanDA software and hardware matching.
"""

from __future__ import annotations

from functools import lru_cache

from broker.domain.queues import GpuSummary, Hardware, HardwareEntry
from broker.matching.architecture import Reading
from broker.matching.hardware import match_hardware
from broker.matching.outcomes import Outcome
from broker.matching.requirement import Requirement
from broker.matching.specs.node import Node


def match_at_node(reading: Reading, node: Node) -> Outcome:
    """How a node meets the hardware that a task asks for; a request whose meaning cannot be known fits nowhere."""
    if reading.fault is not None:
        return Outcome.ARCHITECTURE_INVALID
    return _match(reading.requirement, node)


@lru_cache(maxsize=16_384)
def _match(requirement: Requirement, node: Node) -> Outcome:
    if not requirement.asks_hardware:
        return Outcome.FITS
    return match_hardware(requirement, hardware_of(node), gpus_of(node))


def hardware_of(node: Node) -> Hardware:
    """The node as a queue of its own would describe it; what is not reported is not described."""
    cpu = HardwareEntry(
        None if node.architecture is None else (node.architecture,),
        None if node.cpu_vendor is None else (node.cpu_vendor,),
        None if node.features is None else tuple(sorted(node.features)),
    )
    return Hardware(cpu, HardwareEntry() if node.gpus else None)


def gpus_of(node: Node) -> tuple[GpuSummary, ...]:
    """The GPUs of the node, which are alike."""
    if not node.gpus:
        return ()
    ram = None if node.gpu_ram_mb is None else str(node.gpu_ram_mb)
    return (GpuSummary(node.gpu_vendor, node.gpu_model, ram, node.gpu_generation, node.runtime, node.driver),)
