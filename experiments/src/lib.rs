//! Fabrics of hosts and switches, and the experiments with them: one definition that runs on a machine and in the simulator.
//!
//! A plan ([`Plan`]) is built ([`Setup::build`]), run under a load ([`Load`]), watched ([`Live`]) and accounted for ([`Account`]); an
//! experiment ([`experiment`]) does so under each policy in turn and shows what became of it.
//!
//! Whoever runs a fabric and watches it need not know where it is: settings, loads, counters, looks and accounts are
//! the same, and time is told by what drives it ([`World`]). In the simulator dataplanes and hosts are driven by
//! events, which needs no privilege, and routes are values. What is built on a machine is built there by somebody else, who brings a
//! [`Ground`] along: nothing here opens a socket, starts a thread or knows an operating system.
//!
//! ```text
//!   experiment --> Setup --> Fabric --> Started --> Account
//!                              |           |
//!                            Built       World     of the simulator, or of whoever has a machine
//! ```

#![forbid(unsafe_code)]

mod account;
mod addresses;
mod counted;
mod credit;
pub mod demo;
mod error;
pub mod experiment;
mod fabric;
mod ground;
pub mod kernel;
mod line;
mod live;
mod load;
mod looks;
pub mod namespaces;
mod plan;
mod probe;
mod record;
pub mod scenario;
mod settings;
mod settled;
pub mod simulate;
mod simulation;
mod stall;
mod table;

pub use account::{Account, Pfc, Totals, jain};
pub use addresses::{Route, device_address, wire_address};
pub use counted::Counted;
pub use error::{FabricError, ProbeError, Refused};
pub use fabric::{Fabric, Setup, Started};
pub use ground::{Built, Clock, Ended, Ground, HostStart, Proof, Sender, World};
pub use line::Line;
pub use live::Live;
pub use load::{Load, lossless};
pub use plan::{HostId, LOSSLESS, Plan, PlannedHost, PortOf, Stack, SwitchId};
pub use record::{Completion, PauseEvent, QueueLook, Record, Recorder, Told};
pub use settings::Settings;
pub use settled::settled;
pub use stall::Stall;
