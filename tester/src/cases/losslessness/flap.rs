use xoff_wire::units::{ClassSet, Nanos};

use crate::bench::{Bench, Flow, Void};
use crate::cases::complete::{drain, require_complete, send_all};
use crate::cases::streams::{FROM, TO, lossless, start_heartbeat};
use crate::judgement::Judgement;

/// Time for link training and spanning tree.
const RETURN: Nanos = Nanos::from_secs(40);
const DOWN: Nanos = Nanos::from_millis(100);
const FRAMES: u64 = 2_000;

pub(super) fn flap(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let probe = bench.stream(Flow::new(FROM, TO, class))?;
    bench.run_for(DOWN)?;
    bench.hold(TO, ClassSet::ALL, Nanos::from_millis(1));
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
    bench.stop(probe);
    bench.announce()?;
    start_heartbeat(bench)?;
    let stream = send_all(bench, Flow::new(FROM, TO, class), FRAMES)?;
    drain(bench, &[stream])?;
    if returns {
        require_complete(bench, &mut judgement, &[stream], "the stream after the flap");
    }
    Ok(judgement)
}
