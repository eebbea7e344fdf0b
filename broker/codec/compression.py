"""Compression of stored work and decisions; inflating is limited, as damaged bytes must not fill the memory."""

from __future__ import annotations

import zlib

#: The largest size of a part of a decision.
_MAX_BYTES = 64 * 1024 * 1024


def inflate(data: bytes) -> bytes:
    """Inflate compressed bytes, refusing more than the limit.

    Raises:
        ValueError: the data ends too early, or is larger than any part of a decision.
        zlib.error: the data is damaged.

    >>> inflate(zlib.compress(b"reasons"))
    b'reasons'
    """
    opener = zlib.decompressobj()
    body = opener.decompress(data, _MAX_BYTES)
    if not opener.eof:
        raise ValueError("they end too early")
    return body


# Typical work: of a task, then of an analysis chunk, as its tables are written. Stored streams refer to it, so it must
# never be changed; a better one gets a name of its own.
_TYPICAL = """
{"tasks":{"jeditaskid":[0],"vo":["atlas"],"prodsourcelabel":["managed"],"gshare":[""],"workqueue_id":[0.0],"nucl
eus":[null],"currentpriority":[0.0],"taskpriority":[0.0],"iointensity":[0.0],"frozentime_s":[null],"t1weight":[0
.0],"input_prestaging":[false],"full_chain":[0],"parent_nucleus":[null],"remaining_hs06s":[0.0],"fault":[""],"pa
rent_full_chain":[0],"parent_missing":[false]},"outputs":{"task":[0],"datasetid":[0],"storagetoken":[null]},"par
ts":{"task":[0],"datasetid":[0],"catalogued":[true],"files":[0.0],"bytes":[0.0],"asked":[true]},"replicas":{"par
t":[0,0],"rse":[""],"is_tape":[false,false],"files":[0.0],"bytes":[0.0],"complete":[true,false]},"hint":{{"c":{"
jeditaskid":[0],"datasetid":[0],"ramcount":[0.0],"vo":["atlas"],"status":["running"],"username":[""],"prodsource
label":["managed"],"processingtype":[""],"workinggroup":[""],"gshare":[""],"resource_type":["MCORE"],"workqueue_
id":[0.0],"cloud":["WORLD"],"nucleus":[""],"site":[null],"currentpriority":[0.0],"taskpriority":[0.0],"corecount
":[0.0],"mergecorecount":[null],"task_ramcount":[0.0],"ramunit":["MBPerCore"],"baseramcount":[0.0],"mergeramcoun
t":[null],"walltime":[null],"walltimeunit":[null],"cputime":[0.0],"cputimeunit":["HS06sPerEvent"],"cpuefficiency
":[90.0],"basewalltime":[0.0],"outdiskcount":[0.0],"outdiskunit":["kBPerEvent"],"workdiskcount":[0.0],"workdisku
nit":["MB"],"iointensity":[0.0],"diskio":[0.0],"transhome":[""],"architecture":[""],"container_name":[null],"eve
ntservice":[0.0],"usejumbo":[null],"frozentime_s":[null],"splitrule":[""],"t1weight":[0.0],"input_prestaging":[f
alse],"full_chain":[0],"ip_connectivity":[0],"ip_stack":[0],"allow_input_lan":[0],"allow_input_wan":[false],"use
_local_io":[false],"max_core_count":[0.0],"dynamic_num_events":[0.0],"max_events_per_job":[0.0],"es_consumers":[
0.0],"es_attempts":[0.0],"job_cloning":[false],"only_tags_for_fc":[false],"merge_output":[false],"merging":[fals
e],"scout":[false],"jumbo":[false],"master_site":[null],"master_creationtime_s":[0.0],"master_modificationtime_s
":[0.0],"master_nfiles":[0.0],"master_nfilestobeused":[0.0],"n_files":[0],"total_files":[0.0],"total_bytes":[0.0
],"atom_events":[0.0],"atom_mb":[0.0],"atom_bytes":[0.0],"longest_run_events":[0.0],"ready_events":[0.0],"accept
ed_cores":[null],"rebrokered_from":[null],"placement_constraints":[null]},"i":{"chunk":[0],"datasetid":[0],"scop
e":[""],"name":[""],"is_master":[true],"is_pseudo":[false],"distributed":[false],"files":[0.0],"bytes":[0.0],"da
taset_files":[0.0],"catalogued":[true],"asked":[true]},"r":{"input":[0,0],"rse":["",""],"is_tape":[false,false],
"is_vp":[false,false],"found":[0.0,0.0],"total":[0.0,0.0],"complete":[true,false],"holds_all":[true,false],"chun
k_files":[0.0,0.0],"chunk_bytes":[0.0,0.0]},"v":1,"placed":{},"a":{"transuses":[null],"included_sites":[null],"e
xcluded_sites":[null],"avoid_vp":[false],"allow_incomplete":[false],"gb_per_job":[0.0],"task_class":[0.0],"bad_j
obs":[0.0],"jobs_estimate":[0.0],"sites_per_job":[0.0]},"cut":{"settings":{"files_per_job":1},"inputs":[[true,1,
{}]],"names":null,"files":{"fsize_bytes":0,"nevents":0,"startevent":0,"endevent":0,"boundaryid":-922337203685477
5808,"lumiblocknr":-9223372036854775808},"held":{"1":[0]}}}
"""
DICTIONARY = "".join(_TYPICAL.split("\n")).encode()
_FDICT = 0x20

_WIDE, _NARROW = (15, 8), (13, 5)
"""Bits of the window, and memory level. Before the narrow window existed, all work was packed with the wide one."""
_NARROW_BYTES = 8192
"""A text no longer than this is packed in the narrow window."""


def pack_work(text: bytes) -> bytes:
    """Compress the text with the dictionary above; :func:`unpack_work` is the inverse."""
    return _packed(text, _NARROW if len(text) <= _NARROW_BYTES else _WIDE)


def pack_alike(text: bytes, window_bits: int) -> bytes:
    """Compress the text in a window of this size, as read by :func:`window_bits` from existing work.

    Raises:
        ValueError: no work was ever packed with such a window.
    """
    packings = dict((_WIDE, _NARROW))
    if window_bits not in packings:
        raise ValueError(f"work is not packed with windows of {window_bits} bits")
    return _packed(text, (window_bits, packings[window_bits]))


def window_bits(data: bytes) -> int:
    """The window size of packed work, by its first byte: 2 to the power of this many bytes. Source: RFC 1950, CINFO."""
    return 8 + (data[0] >> 4)


def _packed(text: bytes, packing: tuple[int, int]) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, *packing, zdict=DICTIONARY)
    return packer.compress(text) + packer.flush()


def unpack_work(data: bytes, most_bytes: int) -> bytes:
    """The inverse of :func:`pack_work`, also for work without a dictionary; at most ``most_bytes`` bytes.

    Raises:
        zlib.error: it is damaged, or needs another dictionary.
    """
    named = len(data) > 1 and data[1] & _FDICT
    unpacker = zlib.decompressobj(zdict=DICTIONARY) if named else zlib.decompressobj()
    return unpacker.decompress(data, most_bytes)
