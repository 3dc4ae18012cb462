//! Loads of a fabric with flows. An open load is a list made in advance ([`Listed`], [`poisson`]). A closed load is
//! called when one of its flows has ended, and adds successors.

mod closed;
mod draw;
mod incast;
mod jitter;
mod list;
mod poisson;
mod sizes;

pub use closed::{OnOff, Replies, Times};
pub use draw::{Draw, draw};
pub use incast::{Incast, IncastSettings};
pub use jitter::Jittered;
pub use list::{Listed, ParseError, parse_flows, permutation, ring};
pub use poisson::{Poisson, mean_on_line, poisson};
pub use sizes::{Between, Sizes, SizesError};

pub use crate::flows::{Load, NewFlows, Query};
