//! Fabrics of hosts and switches, and the experiments with them: one definition that runs on a machine and in the simulator.
//!
//! A plan ([`Plan`]) is built ([`Setup::build`]), run under a load ([`Load`]), watched ([`Live`]) and accounted for ([`Account`]); an
//! experiment ([`experiment`]) does so under each policy in turn and shows what became of it.
//!
//! Whoever runs a fabric and watches it need not know where it is: settings, loads, counters, looks and accounts are
//! the same, and time is told by what drives it (`World`). In the simulator dataplanes and hosts are driven by
//! events, which needs no privilege, and routes are values. On a machine they are threads in namespaces.
//!
//! ```text
//!   experiment --> Setup --> Fabric --> Started --> Account
//!                                          |
//!                                        World     of the simulator, or of this machine (namespaces)
//! ```

#![forbid(unsafe_code)]

mod account;
mod addresses;
mod counted;
mod credit;
mod error;
pub mod experiment;
mod fabric;
mod line;
mod live;
mod load;
mod looks;
mod namespaces;
mod plan;
mod plot;
mod probe;
mod raw;
mod results;
pub mod scenario;
mod set;
mod settings;
pub mod simulate;
mod simulation;
mod stall;
mod statistics;
mod table;
mod world;

use account::{Account, Pfc, Totals, jain};
use counted::{Counted, settled};
use error::FabricError;
use fabric::{Fabric, Setup, Started};
pub use line::Line;
use live::Live;
use load::{Load, lossless};
use plan::{HostId, LOSSLESS, Plan, PortOf, SwitchId};
pub use plot::Figure;
pub use set::Given;
use settings::Settings;
pub use stall::Stall;
