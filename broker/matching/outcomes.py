"""Outcomes of the check of a requirement at a queue. 0 means that the task may run there."""

from __future__ import annotations

from enum import IntEnum


class Outcome(IntEnum):
    """One way to end; the name in lower case is the code that users see."""

    FITS = 0
    #: the queue
    NOT_OFFERED = 1
    NOT_PUBLISHED = 2
    UNREADABLE = 3
    RESERVED_CPU = 4
    RESERVED_GPU = 5
    NO_HARDWARE = 6
    HARDWARE_UNKNOWN = 7
    #: the CPU
    CPU = 10
    #: the GPU
    GPU = 20
    GPU_NO_MONITORING = 21
    GPU_VENDOR = 22
    GPU_MODEL = 23
    GPU_MODEL_EXCLUDED = 24
    GPU_MICROARCHITECTURE = 25
    GPU_VRAM = 26
    GPU_CUDA = 27
    GPU_DRIVER = 28
    GPU_SOURCE = 29
    #: the software
    CONTAINER = 30
    RELEASE = 31
    PLATFORM = 32
    PLATFORM_UNRESOLVED = 33
    #: the task
    PATTERN_UNSUPPORTED = 40
    ARCHITECTURE_INVALID = 41

    @property
    def code(self) -> str:
        """The name for users."""
        return self.name.lower()


TITLES = {
    Outcome.FITS: "the queue has what the task asks for",
    Outcome.NOT_OFFERED: "releases of the queue is neither AUTO nor ANY, so nothing is known to run there",
    Outcome.NOT_PUBLISHED: "the queue publishes no software tags",
    Outcome.UNREADABLE: "the software tags of the queue cannot be read",
    Outcome.RESERVED_CPU: "the queue takes only tasks that ask for its CPU",
    Outcome.RESERVED_GPU: "the queue takes only tasks that ask for a GPU",
    Outcome.NO_HARDWARE: "the queue does not describe its hardware",
    Outcome.HARDWARE_UNKNOWN: "releases of the queue is ANY, so its hardware is not known",
    Outcome.CPU: "the CPUs of the queue are none that the task asks for",
    Outcome.GPU: "the queue has no GPUs",
    Outcome.GPU_NO_MONITORING: "no pilot has reported the GPUs of the queue",
    Outcome.GPU_VENDOR: "no GPU of the queue is of the vendor",
    Outcome.GPU_MODEL: "no GPU of the queue is of the model",
    Outcome.GPU_MODEL_EXCLUDED: "the queue has GPUs of the excluded model",
    Outcome.GPU_MICROARCHITECTURE: "no GPU of the queue is of the microarchitecture, or one is of an excluded one",
    Outcome.GPU_VRAM: "not every GPU of the queue has the memory",
    Outcome.GPU_CUDA: "not every GPU of the queue has the CUDA version",
    Outcome.GPU_DRIVER: "not every GPU of the queue has the driver",
    Outcome.GPU_SOURCE: "the summary of the GPUs of all queues cannot be used now",
    Outcome.CONTAINER: "the container cannot be used at the queue",
    Outcome.RELEASE: "the release is not available at the queue",
    Outcome.PLATFORM: "the release is there, but neither the platform nor containers are",
    Outcome.PLATFORM_UNRESOLVED: "the pattern of the platform matches no platform of the queue",
    Outcome.PATTERN_UNSUPPORTED: "a pattern of the task cannot be used",
    Outcome.ARCHITECTURE_INVALID: "the architecture of the task cannot be read",
}
