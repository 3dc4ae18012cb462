//! An instrument that examines switches and NICs from outside: whether they obey, send and survive PFC as IEEE 802.1Qbb
//! requires.

#![forbid(unsafe_code)]

pub mod report;
