//! Loads, which determine a run's flows. Open loads fix all flows in advance ([`Listed`], [`poisson`]); closed loads
//! react to ends of flows.

mod closed;
mod draw;
mod incast;
mod jitter;
mod list;
mod poisson;

pub use closed::{OnOff, Replies, Times};
pub use draw::{Draw, draw};
pub use incast::{Incast, IncastSettings};
pub use jitter::Jittered;
pub use list::{Listed, ParseError, parse_flows, permutation, ring};
pub use poisson::{Poisson, mean_on_line, poisson};
pub use xoff_host::sizes::{Between, Sizes, SizesError};

pub use crate::flows::{Load, NewFlows, Query};
