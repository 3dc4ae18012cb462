//! The switch.

pub mod control;
pub mod lab;
pub mod traffic;
