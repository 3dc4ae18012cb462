//! Behaviours of the `xoff` binary on real wires, one file each.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // ports and frames are few

mod across_workers;
mod asymmetric;
mod baselines;
mod capture;
mod cascade;
mod classes;
mod clients;
mod control;
mod dashboard;
mod demo;
mod descriptors;
mod devices;
mod ecn;
mod experiment;
mod flap;
mod flooding;
mod full_queues;
mod garbage;
mod gfc;
mod groups;
mod harness;
mod head_of_line;
mod hosts_incast;
mod http;
mod incast;
mod integrations;
mod jumbo;
mod lab;
mod lab_ends;
mod lab_places;
mod lab_programs;
mod late_peer;
mod leaf_spine;
mod learning;
mod lldp;
mod log;
mod loops;
mod lost_xon;
mod memory;
mod modes;
mod nic;
mod nic_killed;
mod nic_rates;
mod nic_tampered;
mod ofc;
mod own_stack;
mod page;
mod page_ports;
mod panic;
mod pfc_ignored;
mod pfc_obeyed;
mod pfc_sent;
mod ping;
mod policies;
mod ports;
mod privileges;
mod prometheus;
mod qcn;
mod queues;
mod recording;
mod reload;
mod reload_ports;
mod restart;
mod returns;
mod rewrite;
mod routes;
mod service;
mod silence;
mod silent_files;
mod sockets;
mod start;
mod storm;
mod thresholds;
mod unseen;
mod vlans;
mod voq;
mod watchdog;
mod workers;

use xoff_netns_tests::{Host, Plan};

/// The binary that cargo has built for these tests.
const BINARY: &str = env!("CARGO_BIN_EXE_xoff-under-test");

/// A bed for it, while no other stands.
fn bed(hosts: u8) -> Plan {
    Plan::new(BINARY, hosts)
}

/// A bed for tests whose frames come one by one, and which claim nothing of time. `.config/nextest.toml` names the
/// modules of such tests, which run beside others.
fn bed_beside_others(hosts: u8) -> Plan {
    bed(hosts).beside_others()
}

/// For lossless traffic on a loaded virtual machine. Frames are large there.
const PATIENT: &str = "stall_budget = \"200ms\"\nsmallest_frame = 1000";

/// Frame `number` of `class`, told by its PCP.
fn frame(from: &Host, to: &Host, class: u8, number: u32) -> Vec<u8> {
    from.to(to).tag(class, 0).numbered(number).build()
}
