"""The production job brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Production Job Brokerage. The order is PanDA's, so that its operators find their way; the result does not
depend on it, but for the code that is shown: the first rule that rejects for good, else the last that rejects for now.
"""

from __future__ import annotations

from broker.engine.chain import Chain
from broker.rules.contract import Filter, GroupFilter, LoadCut, LoadWeight, Weight
from broker.rules.cuts.below_min_weight import BelowMinWeight
from broker.rules.cuts.cap import Cap
from broker.rules.filters.asked_site import AskedSite
from broker.rules.filters.connectivity import Connectivity
from broker.rules.filters.core_count import CoreCount
from broker.rules.filters.direct_access import DirectAccess
from broker.rules.filters.disk_io import DiskIo
from broker.rules.filters.draining import Draining
from broker.rules.filters.es import Es
from broker.rules.filters.es_ucore import EsUcore
from broker.rules.filters.eshigh import Eshigh
from broker.rules.filters.fewevents import Fewevents
from broker.rules.filters.free_space import FreeSpace
from broker.rules.filters.full_chain import FullChain
from broker.rules.filters.inactive import Inactive
from broker.rules.filters.io import Io
from broker.rules.filters.jumbo import Jumbo
from broker.rules.filters.link_blocked import LinkBlocked
from broker.rules.filters.link_full import LinkFull
from broker.rules.filters.longwalltime import Longwalltime
from broker.rules.filters.low_network_weight import LowNetworkWeight
from broker.rules.filters.max_core_count import MaxCoreCount
from broker.rules.filters.max_io_intensity import MaxIoIntensity
from broker.rules.filters.memory_max import MemoryMax
from broker.rules.filters.memory_min import MemoryMin
from broker.rules.filters.min_walltime import MinWalltime
from broker.rules.filters.non_local import NonLocal
from broker.rules.filters.non_pledged import NonPledged
from broker.rules.filters.nones import Nones
from broker.rules.filters.not_full_chain import NotFullChain
from broker.rules.filters.nucleus_endpoint import NucleusEndpoint
from broker.rules.filters.nucleus_full import NucleusFull
from broker.rules.filters.opportunistic import Opportunistic
from broker.rules.filters.over_pledged import OverPledged
from broker.rules.filters.pilots import Pilots
from broker.rules.filters.read_lan_blacklist import ReadLanBlacklist
from broker.rules.filters.read_wan_blacklist import ReadWanBlacklist
from broker.rules.filters.rebrokered import Rebrokered
from broker.rules.filters.regexpcmtconfig import Regexpcmtconfig
from broker.rules.filters.requested_cores import RequestedCores
from broker.rules.filters.scout_walltime import ScoutWalltime
from broker.rules.filters.scratch_disk import ScratchDisk
from broker.rules.filters.shortwalltime import Shortwalltime
from broker.rules.filters.software import Software
from broker.rules.filters.source_blacklist import SourceBlacklist
from broker.rules.filters.status import Status
from broker.rules.filters.submit_pool import SubmitPool
from broker.rules.filters.t1weight import T1weight
from broker.rules.filters.transferring import Transferring
from broker.rules.filters.write_lan_blacklist import WriteLanBlacklist
from broker.rules.filters.write_wan_blacklist import WriteWanBlacklist
from broker.rules.filters.zeroshare import Zeroshare
from broker.rules.weights.cpu_level import CpuLevel
from broker.rules.weights.data_availability import DataAvailability
from broker.rules.weights.network import Network
from broker.rules.weights.nucleus_boost import NucleusBoost
from broker.rules.weights.running_queued import RunningQueued

NAME = "production_job"

FILTERS: tuple[Filter | GroupFilter, ...] = (
    # what closes a queue for everybody comes first: it is cheap and explains most
    Status(),
    # output goes to the nucleus: without a way there, nothing else matters
    NucleusEndpoint(),
    NucleusFull(),
    LinkBlocked(),
    LinkFull(),
    # work that must not wait keeps away from queues that may
    Opportunistic(),
    Inactive(),
    # what the job requires of resources: whoever asks, goes nowhere else
    AskedSite(),
    SubmitPool(),
    # what the queue's owners decided
    Zeroshare(),
    # what the job is
    Jumbo(),
    Fewevents(),
    DiskIo(),
    CoreCount(),
    MaxCoreCount(),
    RequestedCores(),
    Software(),
    Regexpcmtconfig(),
    MemoryMax(),
    MemoryMin(),
    DirectAccess(),
    ScratchDisk(),
    # the storage of the queue: space, then local access, then transfers; of these only the first failing is shown
    FreeSpace(),
    ReadLanBlacklist(),
    WriteLanBlacklist(),
    WriteWanBlacklist(),
    ReadWanBlacklist(),
    SourceBlacklist(),
    # time: too long before too short, the 24 hours of the unknown in between, as PanDA shows them
    Shortwalltime(),
    ScoutWalltime(),
    MinWalltime(),
    Draining(),
    Longwalltime(),
    Connectivity(),
    Es(),
    Eshigh(),
    EsUcore(),
    Nones(),
    # the state of the queue
    Transferring(),
    NonPledged(),
    OverPledged(),
    # where the task wants to be
    T1weight(),
    MaxIoIntensity(),
    FullChain(),
    NotFullChain(),
    Pilots(),
    # what was tried there lately in vain
    Rebrokered(),
    # input: these compare the candidates that are left, so they come when all else has been asked
    Io(),
    # what was skipped for now is out here, so the rest is asked only of queues that could be used at once
    NonLocal(),
    # urgent work takes good links only
    LowNetworkWeight(),
)

WEIGHTS: tuple[Weight, ...] = (DataAvailability(), NucleusBoost(), Network(), CpuLevel())
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (RunningQueued(),)
CUTS: tuple[LoadCut, ...] = (
    # a full queue takes nothing, whatever its weight
    Cap(),
    BelowMinWeight(),
)


def chain() -> Chain:
    """The rules of the production job brokerage as shipped."""
    return Chain(NAME, FILTERS, WEIGHTS, LOAD_WEIGHTS, CUTS)
