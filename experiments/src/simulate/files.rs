use xoff_config::file::{DATA_MAX, FileKind};
use xoff_wire::units::Bytes;

pub(super) const FLOWS: FileKind = FileKind {
    name: "the flows of a load,",
    help: "`file` of a [[load]] is the path of a list of flows, from the scenario's directory on",
    bytes_max: DATA_MAX,
};

pub(super) const LINKS: FileKind = FileKind {
    name: "the links of the topology,",
    help: "`file` of [topology] is the path of a list of links, from the scenario's directory on",
    bytes_max: DATA_MAX,
};

pub(super) const IMPORTED: FileKind = FileKind {
    name: "the imported file",
    help: "--import takes a topology and flows as ns-3's simulator for HPCC reads them",
    bytes_max: DATA_MAX,
};

pub(super) const ABOUT: FileKind = FileKind {
    name: "what a run has written,",
    help: "give a directory that `xoff sim --out DIR` has written, with --shard or without, or `xoff sim merge`",
    bytes_max: Bytes(64 << 20),
};

pub(super) const RESULTS: FileKind = FileKind { bytes_max: DATA_MAX, ..ABOUT };
