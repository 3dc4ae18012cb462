use xoff_config::file::{DATA_MAX, FileKind};
use xoff_wire::units::Bytes;

pub(super) const FLOWS: FileKind = FileKind {
    name: "the file of flows,",
    help: "set `file` of the [[load]] to the path of a list of flows, relative to the scenario's directory",
    bytes_max: DATA_MAX,
};

pub(super) const SIZES: FileKind = FileKind {
    name: "the table of sizes,",
    help: "set `size` of the [[load]] to a built-in table, or to the path of a table, relative to the scenario's directory",
    bytes_max: DATA_MAX,
};

pub(super) const LINKS: FileKind = FileKind {
    name: "the file of links,",
    help: "set `file` of [topology] to the path of a list of links, relative to the scenario's directory",
    bytes_max: DATA_MAX,
};

pub(super) const IMPORTED: FileKind = FileKind {
    name: "the imported file",
    help: "give --import a topology and flows in the formats of ns-3's simulator for HPCC, ConWeave or SimAI",
    bytes_max: DATA_MAX,
};

pub(super) const ABOUT: FileKind = FileKind {
    name: "the result of a run,",
    help: "give a directory that `xoff sim --out DIR` or `xoff sim merge` has written",
    bytes_max: Bytes(64 << 20),
};

pub(super) const RESULTS: FileKind = FileKind { bytes_max: DATA_MAX, ..ABOUT };
