//! A host on one interface over AF_XDP: sender and sink in one.

pub mod flows;
pub mod pacer;
pub mod payload;
pub mod schedule;
pub mod stream;
pub mod track;
pub mod values;
