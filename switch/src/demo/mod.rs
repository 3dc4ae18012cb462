//! `xoff demo`: a congested switch in namespaces, and what became of every frame.

pub mod report;
