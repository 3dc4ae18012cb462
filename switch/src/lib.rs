//! The switch.

pub mod commands;
pub mod control;
pub mod lab;
pub mod traffic;
