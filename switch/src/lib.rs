//! The switch.

pub mod lab;
pub mod traffic;
