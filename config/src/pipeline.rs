//! `[pipeline]`: what is between ingress and egress queues.

use xoff_dataplane::settings::{PipelineSettings, WhenFull};
use xoff_dataplane::units::Nanos;

use crate::document::Document;
use crate::draft::value;
use crate::parse::OrOff;
use crate::problem::{Problem, Problems};

pub(crate) fn settings(document: &Document) -> PipelineSettings {
    let keys = &document.pipeline;
    PipelineSettings {
        rate: value(keys.rate.as_ref(), OrOff::Off).into_option(),
        delay: value(keys.delay.as_ref(), OrOff::Off).into_option().unwrap_or(Nanos::ZERO),
        ingress: value(keys.ingress.as_ref(), Default::default()),
    }
}

/// What is in a pipeline can only stop as a whole.
pub(crate) fn check(document: &Document, problems: &mut Problems) {
    let when_full = document.switch.when_full.as_ref().filter(|key| key.value == WhenFull::StopClass);
    if let (Some(when_full), Some(delay)) = (when_full, document.pipeline.delay.as_ref())
        && settings(document).delay > Nanos::ZERO
    {
        problems.push(
            Problem::error("`when_full = \"stop-class\"` needs a pipeline without `delay`")
                .at(when_full.span, "one class cannot stop in it while others go on")
                .at(delay.span, "frames are in it for so long")
                .help("write when_full = \"stop\", or delay = \"none\""),
        );
    }
}
