//! Measures the cost of recording: dataplane calls with and without a recorder, counted by callgrind or timed.
//!
//! ```text
//! cargo build --release --package xoff-recording --example cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/cost off 100000
//! ```
//!
//! Subtract the cost of the setup: the result of a run with 0 turns.

use std::process::ExitCode;
use std::time::Instant;

use xoff_recording::{Ending, Sink};

#[path = "../tests/replays/dry_run.rs"]
mod dry_run;

#[derive(Debug)]
struct Ring {
    bytes: Box<[u8]>,
    at: usize,
    written: u64,
}

impl Sink for Ring {
    fn put(&mut self, record: &[u8]) -> bool {
        if self.at + record.len() > self.bytes.len() {
            self.at = 0;
        }
        self.bytes[self.at..][..record.len()].copy_from_slice(record);
        self.at += record.len();
        self.written += record.len() as u64;
        true
    }

    fn end(&mut self, _why: Ending) {}
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(kind), Some(turns)) = (args.next(), args.next().and_then(|turns| turns.parse().ok())) else {
        eprintln!("usage: cost on|off TURNS (on: with a recorder, off: without; TURNS: driver loops to run)");
        return ExitCode::from(2);
    };
    let settings = dry_run::settings(12_000);
    let begin = Instant::now();
    let books = if kind == "on" {
        let ring = Ring { bytes: vec![0; 1 << 20].into(), at: 0, written: 0 };
        let dry_run = dry_run::record(&settings, turns, 1, ring);
        println!("records: {} bytes", dry_run.sink.written);
        dry_run.books
    } else {
        dry_run::unrecorded(&settings, turns, 1)
    };
    let received = books.lines().find(|line| line.starts_with("ledger.received"));
    println!("{}, {:?}", received.unwrap_or_default(), begin.elapsed());
    ExitCode::SUCCESS
}
