use xoff_wire::units::{ClassSet, Nanos};

use crate::bench::{Bench, Flow, StreamId, Void};
use crate::cases::complete::{drain, require_unchanged, send_all};
use crate::cases::streams::{FROM, TO, lossless, require_held, response_limit, start_heartbeat};
use crate::judgement::Judgement;

/// Time for link training and spanning tree.
const RETURN: Nanos = Nanos::from_secs(40);
const DOWN: Nanos = Nanos::from_millis(100);
const QUEUE: Nanos = Nanos::from_millis(40);
const FRAMES: u64 = 2_000;

/// Returns whether a pause stops at least half of the frames.
fn stops(bench: &mut Bench, stream: StreamId) -> Result<bool, Void> {
    let begin = bench.now();
    bench.hold(TO, ClassSet::ALL, QUEUE.after(response_limit(bench)));
    bench.run_for(response_limit(bench))?;
    let (sent, arrived) = (bench.sent(stream), bench.tally(stream).frames);
    bench.run_for(Nanos(QUEUE.0 / 2))?;
    let (sent, arrived) = (bench.sent(stream) - sent, bench.tally(stream).frames - arrived);
    require_held(bench, begin)?;
    bench.release(TO);
    bench.run_for(QUEUE)?;
    Ok(arrived <= sent / 2)
}

pub(super) fn flap(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let probe = bench.stream(Flow::new(FROM, TO, class))?;
    bench.run_for(DOWN)?;
    let is_stopped = stops(bench, probe)?;
    bench.hold(TO, ClassSet::ALL, QUEUE);
    bench.run_for(QUEUE)?;
    bench.set_link(TO, false)?;
    let waited = bench.run_for(DOWN);
    bench.set_link(TO, true)?; // even if the examination was interrupted
    waited?;
    let before = bench.tally(probe).frames;
    let begin = bench.now();
    let returns = bench.run_until(RETURN, |bench| bench.tally(probe).frames > before + 10)?;
    let mut judgement = Judgement::new();
    judgement.time(
        "time until frames arrive after the link flap",
        bench.now().since(begin),
        (None, Some(RETURN)),
    );
    judgement.require_in_time(returns, || {
        format!("class {class} still not forwarded {} s after the link returned", RETURN.0 / 1_000_000_000)
    });
    bench.announce()?;
    start_heartbeat(bench)?;
    // Decide in this run: in the next one, the device ignores pauses from the start.
    let mut is_ignored = returns && is_stopped;
    for _ in 0..3 {
        is_ignored = is_ignored && !stops(bench, probe)?;
    }
    judgement.require(!is_ignored, || format!("class {class} ignores pauses after the link flap"));
    bench.stop(probe);
    let stream = send_all(bench, Flow::new(FROM, TO, class), FRAMES)?;
    drain(bench, &[stream])?;
    if returns {
        require_unchanged(bench, &mut judgement, &[stream], "the stream after the flap");
    }
    Ok(judgement)
}
