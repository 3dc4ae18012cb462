// Tests for SPECIFICATION.md: recording

use xoff_recording::{Broken, Ending, Outcome, Passing, Record, Replay, Sink, frame_of, is_call};
use xoff_wire::units::{Nanos, PortId};

use crate::dry_run;

const TURNS: u32 = 3_000;
const XOFF: u32 = 12_000;

#[derive(Debug, Default)]
struct Records {
    room: usize,
    records: Vec<Vec<u8>>,
    ended: Option<Ending>,
}

impl Sink for Records {
    fn put(&mut self, record: &[u8]) -> bool {
        let has_room = self.records.len() < self.room;
        if has_room {
            self.records.push(record.to_vec());
        }
        has_room
    }

    fn end(&mut self, why: Ending) {
        assert_eq!(self.ended.replace(why), None, "the recording ended twice");
    }
}

fn recorded(seed: u64, room: usize) -> dry_run::DryRun<Records> {
    let records = Records { room, ..Records::default() };
    dry_run::record(&dry_run::settings(XOFF), TURNS, seed, records)
}

fn replayed(records: &[Vec<u8>], xoff: u32) -> (Replay, Result<Outcome, Broken>) {
    let mut replay = Replay::new(&dry_run::settings(xoff), dry_run::SLOTS);
    let outcome = replay.run(records.iter().cloned().map(Ok), false);
    (replay, outcome)
}

#[test]
fn replay_of_records_reproduces_answers_and_final_counts() {
    for seed in xoff_explore::seeds(1..4) {
        let run = recorded(seed, usize::MAX);
        let (replay, outcome) = replayed(&run.sink.records, XOFF);
        let Ok(Outcome::Identical { calls, frames }) = outcome else { panic!("{outcome:#?}") };
        assert_eq!(calls, run.sink.records.iter().filter(|record| is_call(record)).count() as u64);
        let passing = run.sink.records.iter().filter(|record| frame_of(record).is_some());
        assert_eq!(frames, passing.count() as u64);
        assert_eq!(replay.differing_books(&run.books), None);
        assert_eq!(replay.differing_books("").expect("the replay has no counts").0, "no further line");
        let kinds = |is: fn(&Record<'_>) -> bool| {
            run.sink
                .records
                .iter()
                .filter(|record| is(&Record::read(record).expect("malformed record")))
                .count()
        };
        assert!(run.books.contains("xoff_sent"), "{}", run.books);
        assert!(kinds(|record| matches!(record, Record::Copied(_, Some(_)))) > 50);
        assert!(kinds(|record| matches!(record, Record::Dropped(..))) > 0);
        assert!(kinds(|record| matches!(record, Record::Refused(..))) > 0);
        assert!(kinds(|record| matches!(record, Record::Punted(..))) > 0);
        assert!(kinds(|record| matches!(record, Record::Made(true, _, Some(_)))) > 50);
        assert!(kinds(|record| matches!(record, Record::Moved(..))) > 0);
    }
}

#[test]
fn recording_changes_no_decision_of_the_switch() {
    let settings = dry_run::settings(XOFF);
    let without = dry_run::unrecorded(&settings, TURNS, 7);
    let no_punts = |books: &str| -> Vec<String> {
        books.lines().filter(|line| !line.contains(".punts.")).map(str::to_owned).collect()
    };
    assert_eq!(no_punts(&recorded(7, usize::MAX).books), no_punts(&without));
    assert_eq!(no_punts(&recorded(7, 1_000).books), no_punts(&without), "a full sink changed decisions");
}

#[test]
fn replay_reports_changed_threshold_as_difference() {
    let run = recorded(1, usize::MAX);
    let (_, outcome) = replayed(&run.sink.records, XOFF - 1_600);
    let Ok(Outcome::Differs(difference)) = outcome else { panic!("{outcome:#?}") };
    assert!(difference.recorded != difference.replayed, "{difference:#?}");
    assert!(
        difference.replayed.contains("control frame") || difference.replayed.contains("8808"),
        "{difference:#?}"
    );
    assert!(
        difference.call > 1 && difference.at > Nanos::ZERO && difference.before.len() > 1,
        "{difference:#?}"
    );
    let (_, same) = replayed(&run.sink.records, XOFF);
    assert!(matches!(same, Ok(Outcome::Identical { .. })));
}

#[test]
fn replay_of_records_written_until_sink_was_full_is_identical() {
    let whole = recorded(2, usize::MAX).sink.records;
    for room in [0, 1, 777, whole.len() - 1] {
        let run = recorded(2, room);
        assert_eq!(run.sink.ended, Some(Ending::Overrun));
        assert_eq!(run.sink.records, whole[..room]);
        let mut replay = Replay::new(&dry_run::settings(XOFF), dry_run::SLOTS);
        let outcome = replay.run::<Broken>(run.sink.records.iter().cloned().map(Ok), true);
        // A full sink may lack answers to the last call, so the replay omits that call.
        let calls = run.sink.records.iter().filter(|record| is_call(record)).count();
        let Ok(Outcome::Identical { calls: made, .. }) = outcome else { panic!("{outcome:#?}") };
        assert_eq!(made, calls.saturating_sub(1) as u64);
    }
}

#[test]
fn records_survive_encoding_and_parsing_unchanged() {
    for bytes in recorded(3, 20_000).sink.records {
        let record = Record::read(&bytes).expect("malformed record");
        let mut again = Vec::new();
        record.write(&mut again);
        assert_eq!(again, bytes);
        assert!(!record.describe(&[]).is_empty());
        assert_eq!(frame_of(&bytes).is_some(), matches!(record, Record::Receive(_) | Record::Sent(_)));
        if !matches!(record, Record::Receive(_) | Record::Sent(_) | Record::Tell(..) | Record::OfHost(..)) {
            for len in 0..bytes.len() {
                assert_eq!(Record::read(&bytes[..len]), None, "{record:?}");
            }
            assert_eq!(Record::read(&[&bytes[..], &[0]].concat()), None, "{record:?}");
        }
    }
}

#[test]
fn replay_refuses_records_that_no_switch_writes() {
    let records = |records: &[Record<'_>]| -> Vec<Vec<u8>> {
        let bytes = |record: &Record<'_>| {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            bytes
        };
        records.iter().map(bytes).collect()
    };
    let frame = |port, slot, len, bytes| Record::Receive(Passing { port: PortId(port), slot, len, bytes });
    let head = &[0; 60][..];
    for (calls, why) in [
        (&[Record::Freed(1)][..], "the record is an answer, not a call"),
        (
            &[Record::At(Nanos(2)), Record::At(Nanos(1))],
            "the time of the call is earlier than that of the previous call",
        ),
        (&[Record::Release(PortId(0), 1)], "the port's driver has no frame in slot 1"),
        (&[Record::GiveUp(PortId(0), 9_999)], "the port's driver has no frame in slot 9999"),
        (&[Record::Announce(PortId(3))], "the switch has no port 3"),
        (&[frame(3, 0, 60, head)], "the switch has no port 3"),
        (&[frame(0, dry_run::SLOTS, 60, head)], "a frame of 60 bytes cannot arrive in slot 616"),
        (&[frame(0, 0, 61, head)], "a frame of 61 bytes cannot arrive in slot 0"),
        (&[frame(0, 0, 60, head), frame(0, 0, 60, head)], "a frame of 60 bytes cannot arrive in slot 0"),
        (&[frame(0, 0, 0, &[])], "a frame of 0 bytes cannot arrive in slot 0"),
    ] {
        let (_, outcome) = replayed(&records(calls), XOFF);
        let broken = outcome.expect_err(why);
        assert_eq!((broken.call, &*broken.why), (calls.len() as u64, why));
    }
    let (_, outcome) = replayed(&[vec![], vec![99]], XOFF);
    assert_eq!(outcome.expect_err("malformed record").why, "the bytes of the record are malformed");
}
