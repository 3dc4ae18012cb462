//! The switch.

pub mod lab;
