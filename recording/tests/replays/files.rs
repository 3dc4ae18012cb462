// Tests for SPECIFICATION.md: recording

use std::sync::mpsc;
use std::time::Duration;

use xoff_flow_control::settings::SwitchSettings;
use xoff_recording::{
    Ending, FORMAT, FileWriter, HEAD, Head, NotReplayed, Outcome, Replayed, Ring, Sink, pcapng, replay,
    replay_of, write,
};

use crate::dry_run;

const XOFF: u32 = 12_000;

fn recorded(settings: &SwitchSettings, text: &str, turns: u32, room: usize) -> Vec<u8> {
    let head = Head::new(("dry_run", text), settings, dry_run::SLOTS);
    let mut file = Vec::new();
    let writer = FileWriter::new(&mut file, &head, settings, Duration::from_secs(1_000));
    let (ring, records) = Ring::new(room);
    let run = dry_run::record(settings, turns, 5, ring);
    let (end, ended) = mpsc::channel();
    end.send(Some(run.books)).unwrap();
    write(records, writer, &ended).unwrap();
    file
}

fn file(turns: u32, room: usize) -> Vec<u8> {
    recorded(&dry_run::settings(XOFF), &dry_run::text(XOFF), turns, room)
}

fn replayed(file: &[u8]) -> Result<Replayed, NotReplayed> {
    replay_of(file, file, None, "test".as_ref())
}

#[test]
fn replay_of_file_reproduces_all_answers_and_final_counts() {
    let replayed = replayed(&file(2_000, 16 << 20)).unwrap();
    assert!(replayed.is_identical() && replayed.has_books, "{replayed:#?}");
    assert_eq!(replayed.ended, Ending::Stopped);
    assert!(
        matches!(replayed.outcome, Outcome::Identical { calls, frames } if calls > 10_000 && frames > 5_000)
    );
}

#[test]
fn full_ring_ends_recording_with_overrun() {
    for room in [600, 60_000] {
        let replayed = replayed(&file(2_000, room)).unwrap();
        assert!(replayed.is_identical() && !replayed.has_books, "{replayed:#?}");
        assert_eq!(replayed.ended, Ending::Overrun);
    }
}

#[test]
fn replay_refuses_truncated_recording() {
    let whole = file(8, 1 << 20);
    assert!(replayed(&whole).unwrap().is_identical());
    for len in 1..whole.len() {
        let error = replayed(&whole[..len]).unwrap_err();
        assert!(matches!(error, NotReplayed::Cut { .. }), "{len}: {error}");
    }
}

#[test]
fn replay_refuses_short_file_of_other_format() {
    for bytes in [&b"h"[..], b"hi\n", b"a text that is longer than a block"] {
        let error = replayed(bytes).unwrap_err();
        assert!(matches!(error, NotReplayed::Foreign), "{error}");
    }
}

#[test]
fn replay_refuses_pipe_or_directory() {
    for path in ["/dev/zero", "/"] {
        let error = replay(path.as_ref(), None).unwrap_err().to_string();
        assert!(error.contains("so give a regular file"), "{error}");
    }
}

#[test]
fn replay_of_empty_file_suggests_run_with_record_option() {
    let error = replayed(&[]).unwrap_err();
    assert!(matches!(error, NotReplayed::Empty), "{error}");
    let message = error.to_string();
    assert!(
        message.starts_with("the file is empty") && message.contains("`xoff run --record FILE`"),
        "{message}"
    );
}

#[test]
fn replay_refuses_recording_with_any_changed_byte() {
    let whole = file(8, 1 << 20);
    for (at, by) in (0..whole.len()).flat_map(|at| [0x01, 0x11, 0x80, 0xff].map(|by| (at, by))) {
        let mut other = whole.clone();
        other[at] ^= by;
        let error = replayed(&other).expect_err("a file with a changed byte was replayed");
        let is_of_reading = !matches!(error, NotReplayed::Unread { .. } | NotReplayed::Broken(_));
        assert!(is_of_reading, "{at} by {by:#x}: {error}");
    }
}

#[test]
fn replay_refuses_recording_with_trailing_data() {
    let whole = file(8, 1 << 20);
    let mut block = pcapng::Writer::new("x", vec![], 0, Duration::ZERO, Duration::ZERO);
    for more in [&b"x"[..], b"x\n", &[0; 4_096], &block.take(), &whole[..whole.len() / 2]] {
        let error = replayed(&[&whole, more].concat()).unwrap_err();
        assert!(matches!(error, NotReplayed::Followed), "{error}");
    }
}

#[test]
fn replay_refuses_concatenated_recordings() {
    let whole = file(8, 1 << 20);
    let error = replayed(&whole.repeat(2)).unwrap_err();
    assert!(matches!(error, NotReplayed::Followed), "{error}");
}

#[test]
fn replay_refuses_missing_or_swapped_block() {
    let whole = file(8, 1 << 20);
    let mut blocks = Vec::new();
    let mut rest = &whole[..];
    while let Some(len) = rest.get(4..8) {
        let (block, behind) = rest.split_at(u32::from_le_bytes(len.try_into().unwrap()) as usize);
        blocks.push(block);
        rest = behind;
    }
    for at in 0..blocks.len() - 1 {
        let (mut fewer, mut swapped) = (blocks.clone(), blocks.clone());
        fewer.remove(at);
        swapped.swap(at, at + 1);
        assert!(replayed(&fewer.concat()).is_err(), "a recording without block {at} was replayed");
        assert!(
            blocks[at] == blocks[at + 1] || replayed(&swapped.concat()).is_err(),
            "a recording with block {at} swapped was replayed"
        );
    }
}

#[test]
fn replay_reports_unsupported_format_rather_than_damage() {
    let mut whole = file(8, 1 << 20);
    let begin = [&[HEAD][..], &FORMAT.to_le_bytes()].concat();
    let at = whole.windows(begin.len()).position(|bytes| bytes == begin).unwrap();
    whole[at + 1] = 1;
    assert!(matches!(replayed(&whole).unwrap_err(), NotReplayed::Format { theirs: 1 }));
}

#[test]
fn replay_refuses_file_of_other_format() {
    for bytes in [&b"[[port]]\nname = \"a\"\ndevice = \"a\"\n"[..], &[0; 4_096]] {
        assert!(matches!(replayed(bytes).unwrap_err(), NotReplayed::Foreign | NotReplayed::Damaged { .. }));
    }
    let mut writer = pcapng::Writer::new("x", vec![], 0, Duration::ZERO, Duration::ZERO);
    writer.own(&[9, 9]);
    assert!(matches!(replayed(&writer.take()).unwrap_err(), NotReplayed::Foreign));
}

#[test]
fn replay_refuses_recording_of_other_version_or_two_workers() {
    let settings = dry_run::settings(XOFF);
    let text = dry_run::text(XOFF);
    let head = Head::new(("dry_run", &text), &settings, dry_run::SLOTS);
    let of = |head: &Head| {
        let writer = FileWriter::new(Vec::new(), head, &settings, Duration::ZERO);
        replayed(&writer.end(Ending::Stopped, None).unwrap().0).map(|replayed| replayed.is_identical())
    };
    assert!(of(&head).unwrap(), "a recording without calls differs");
    let other = Head { version: "0.0.1".into(), ..head.clone() };
    let message = of(&other).unwrap_err().to_string();
    assert!(message.starts_with("the recording was made by xoff 0.0.1, and this is "), "{message}");
    assert!(matches!(of(&Head { workers: 2, ..head.clone() }).unwrap_err(), NotReplayed::Workers(2)));
    assert!(matches!(of(&Head { settings: 1, ..head.clone() }).unwrap_err(), NotReplayed::Settings));
    assert!(matches!(of(&Head { macs: vec![], ..head.clone() }).unwrap_err(), NotReplayed::Settings));
    assert!(matches!(of(&Head { text: "[[port".into(), ..head }).unwrap_err(), NotReplayed::Config(_)));
}

#[test]
fn replay_reports_first_different_decision() {
    // Record with another XOFF threshold than that of the recorded configuration, so that a decision differs.
    let (text, settings) = (dry_run::text(XOFF), dry_run::settings(XOFF));
    let head = Head::new(("dry_run", &text), &settings, dry_run::SLOTS);
    let (ring, records) = Ring::new(16 << 20);
    let run = dry_run::record(&dry_run::settings(XOFF + 2_000), 2_000, 5, ring);
    let (end, ended) = mpsc::channel();
    end.send(Some(run.books)).unwrap();
    let mut file = Vec::new();
    write(records, FileWriter::new(&mut file, &head, &settings, Duration::ZERO), &ended).unwrap();
    let replayed = replayed(&file).unwrap();
    assert!(!replayed.is_identical());
    let Outcome::Differs(difference) = replayed.outcome else { panic!("{replayed:#?}") };
    assert!(difference.replayed != difference.recorded && !difference.before.is_empty(), "{difference:#?}");
}

#[test]
fn record_ring_without_writer_thread_refuses_records() {
    let (mut ring, records) = Ring::new(1 << 10);
    assert!(ring.put(&[1, 2, 3]));
    drop(records);
    assert!(!ring.put(&[1, 2, 3]));
}
