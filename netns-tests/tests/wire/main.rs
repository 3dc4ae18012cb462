//! Behaviours of the `xoff` binary on real wires, one file each.

#![allow(clippy::unwrap_used)]

mod harness;
mod ping;

use xoff_netns_tests::Plan;

/// A bed for the binary that cargo has built for these tests.
fn bed(hosts: u8) -> Plan {
    Plan::new(env!("CARGO_BIN_EXE_xoff-under-test"), hosts)
}
