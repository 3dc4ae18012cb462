//! A host on one interface over AF_XDP: sender and sink in one.

pub mod flows;
pub mod gate;
pub mod pacer;
pub mod payload;
pub mod progress;
pub mod report;
pub mod schedule;
pub mod sender;
pub mod sink;
pub mod stream;
pub mod table;
#[cfg(test)]
mod testing;
pub mod track;
pub mod values;
