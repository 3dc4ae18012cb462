//! Who sends what to whom, and when: loads of a fabric with flows.
//!
//! An open load is a list that is made beforehand ([`Listed`]): arrivals at random ([`poisson`]), a permutation, a file. A closed one is
//! asked again when one of its flows has ended, and answers with those that follow.

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

pub use crate::flows::{Asked, Load, Query};
