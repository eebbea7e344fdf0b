"""CPUs and GPUs at the boundaries that the contract cases leave open."""

from __future__ import annotations

import pytest

from broker.domain.queues import GpuSummary, Hardware, HardwareEntry
from broker.matching.architecture import read
from broker.matching.hardware import match_hardware

T4 = GpuSummary("NVIDIA", "Tesla T4", "15360", "Turing", "12.4", "550.54")
A100 = GpuSummary("NVIDIA", "NVIDIA A100-SXM4-80GB", "81920", "Ampere", "12.4", "550.54")
BLANK = GpuSummary()
Words = tuple[str, ...] | None


def cpu(arch: Words = None, vendor: Words = None, instr: Words = None) -> HardwareEntry:
    exclusive = any("excl" in words for words in (arch, vendor, instr) if words)
    return HardwareEntry(arch, vendor, instr, exclusive)


def outcome(text: str, entry: HardwareEntry | None, gpu: HardwareEntry | None = None, *gpus: GpuSummary) -> str:
    return match_hardware(read(text).requirement, Hardware(entry, gpu), gpus).code


@pytest.mark.parametrize(
    ("text", "entry", "expected"),
    [
        # patterns match the whole text and are case-sensitive
        ("#x86", cpu(("x86_64",)), "cpu"),
        ("#x86.*", cpu(("x86_64",)), "fits"),
        ("#86_64", cpu(("x86_64",)), "cpu"),
        ("#X86_64", cpu(("x86_64",)), "cpu"),
        ("#x86_64.v2", cpu(("x86_64",)), "cpu"),
        # vendor and instruction set are literal
        ("#x86_64-int.*", cpu(("x86_64",), ("intel",)), "cpu"),
        ("#x86_64-*-avx", cpu(("x86_64",), None, ("avx2",)), "cpu"),
        # no hardware described
        ("#*", cpu(), "fits"),
        ("#*", cpu((), (), ()), "fits"),
        ("#x86_64", cpu(), "cpu"),
        ("#x86_64", cpu(()), "cpu"),
        # words that match everything
        ("#x86_64-intel-avx2", cpu(("any",), ("any",), ("any",)), "fits"),
        ("#x86_64-intel-avx2", cpu(("",), ("",), ("",)), "fits"),
        ("#x86_64-intel-avx2", cpu(("any",), ("any",), ()), "cpu"),
        # excl requires the attribute to be named, and is not a value itself
        ("#*", cpu(("any", "excl")), "cpu"),
        ("#x86_64", cpu(("any", "excl")), "fits"),
        ("#excl", cpu(("x86_64", "excl")), "cpu"),
        ("#.*", cpu(("excl",)), "cpu"),
        ("#*-excl", cpu(("x86_64",), ("intel", "excl")), "cpu"),
        ("#x86_64", cpu(("x86_64",), None, ("excl",)), "cpu"),
        ("x86_64-el9-opt", cpu(("x86_64", "excl")), "fits"),
        ("x86_64-el9-opt", cpu(("x86_64",), ("intel", "excl")), "cpu"),
        # one alternative must fit as a whole
        ("#x86_64-intel|aarch64-arm", cpu(("aarch64",), ("intel",)), "cpu"),
        ("#x86_64-intel|aarch64-arm", cpu(("aarch64",), ("arm",)), "fits"),
        # an unsupported pattern does not affect the others; it is reported only if it might have fitted
        ("#(?=a)|x86_64", cpu(("x86_64",)), "fits"),
        ("#(?=a)|x86_64", cpu(("aarch64",)), "pattern_unsupported"),
        ("#(?=a)-intel", cpu(("aarch64",), ("amd",)), "cpu"),
        ("", None, "fits"),
        ("", cpu(("x86_64", "excl")), "reserved_cpu"),
        ("#x86_64", None, "no_hardware"),
    ],
)
def test_outcomes_for_cpus(text: str, entry: HardwareEntry | None, expected: str) -> None:
    assert outcome(text, entry) == expected


@pytest.mark.parametrize(
    ("text", "entry", "gpu", "expected"),
    [
        ("#&*", cpu(("x86_64", "excl")), cpu(), "reserved_cpu"),
        ("#x86_64", cpu(("x86_64",)), cpu(vendor=("excl",)), "reserved_gpu"),
        ("", None, cpu(vendor=("excl",)), "reserved_gpu"),
        ("#&*", None, cpu(vendor=("amd", "excl")), "fits"),
        ("#&*", cpu(("x86_64",)), None, "gpu"),
        ("#x86_64&*", None, cpu(), "cpu"),
    ],
)
def test_reserved_queues_and_missing_entries(
    text: str, entry: HardwareEntry | None, gpu: HardwareEntry | None, expected: str
) -> None:
    assert outcome(text, entry, gpu) == expected


@pytest.mark.parametrize(
    ("text", "gpus", "expected"),
    [
        ("#&NVID", (T4,), "fits"),
        ("#&vidia", (T4,), "gpu_vendor"),
        ("#&.*", (BLANK,), "gpu_vendor"),
        ("#&.*", (), "gpu_no_monitoring"),
        ("#&*:model=.*", (BLANK,), "gpu_model"),
        ("#&*:model!=.*", (BLANK,), "fits"),
        ("#&*:model!=*", (T4,), "pattern_unsupported"),
        ("#&*:model=tesla.t4$", (T4,), "fits"),
        ("#&*:model=.*T4", (A100, T4), "fits"),
        ("#&*:model!=.*T4", (A100, T4), "gpu_model_excluded"),
        ("#&*:uarch=Turing", (A100, T4), "fits"),
        ("#&*:uarch=Tur", (T4,), "gpu_microarchitecture"),
        ("#&*:uarch!=Turing", (A100,), "fits"),
        ("#&*:uarch!=Turing", (A100, T4), "gpu_microarchitecture"),
        ("#&*:uarch!=Turing", (BLANK,), "fits"),
        ('{"gpu_spec": {"microarchitecture": []}}', (T4,), "gpu_microarchitecture"),
        ("#&*:vram>=15360", (A100, T4), "fits"),
        ("#&*:vram>15360", (A100, T4), "gpu_vram"),
        ("#&*:vram>=0", (T4, BLANK), "gpu_vram"),
        ("#&*:cuda!=12.4", (T4,), "gpu_cuda"),
        ("#&*:driver<=550.54", (T4,), "fits"),
        ("#&*:driver<550.54", (T4,), "gpu_driver"),
        # the first mismatch is reported
        ("#&amd:vram>=99999:driver>999", (T4,), "gpu_vendor"),
        ("#&*:vram>=99999:driver>999", (T4,), "gpu_vram"),
    ],
)
def test_gpus(text: str, gpus: tuple[GpuSummary, ...], expected: str) -> None:
    assert outcome(text, cpu(), cpu(), *gpus) == expected
