//! Fabrics of hosts and switches, and experiments with them, live or simulated.
//!
//! A plan ([`Plan`]) is built ([`Setup::build`]), run under a load ([`Load`]) and watched ([`Live`]); an [`Account`]
//! then shows where all frames went.

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
mod namespaces;
mod plan;
mod plot;
mod probe;
mod raw;
mod results;
mod running_fabric;
mod samples;
pub mod scenario;
mod set;
mod settings;
pub mod simulate;
mod simulation;
mod stall;
mod statistics;
mod table;

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
