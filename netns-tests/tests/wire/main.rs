//! Tests of the `xoff` binary with real network devices, one file for each behaviour.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // ports and frames are few

mod across_workers;
mod all_to_all;
mod asymmetric;
mod baselines;
mod blocking_files;
mod capture;
mod cascade;
mod classes;
mod clients;
mod control;
mod dashboard;
mod demo;
mod descriptors;
mod device_returns;
mod devices;
mod drain;
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
mod kernel_drops;
mod lab;
mod lab_foreign_hosts;
mod lab_links;
mod lab_programs;
mod lab_shutdown;
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
mod nic_dcbx;
mod nic_device;
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
mod rewrite;
mod routes;
mod service;
mod snooping;
mod sockets;
mod start_errors;
mod storm;
mod tester;
mod tester_defects;
mod tester_frames;
mod tester_nic;
mod tester_reports;
mod tester_stalls;
mod thresholds;
mod vlans;
mod voq;
mod watchdog;
mod workers;

use xoff_netns_tests::{Host, Plan};

const BINARY: &str = env!("CARGO_BIN_EXE_xoff-under-test");

fn bed(hosts: u8) -> Plan {
    Plan::new(BINARY, hosts)
}

/// Settings that keep streams of large frames lossless on a loaded virtual machine.
const PATIENT: &str = "stall_budget = \"200ms\"\nsmallest_frame = 1000";

fn frame(from: &Host, to: &Host, class: u8, number: u32) -> Vec<u8> {
    from.to(to).tag(class, 0).numbered(number).build()
}
