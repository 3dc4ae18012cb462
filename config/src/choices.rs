//! Words that stand for one of a few things: by which a configuration is read, and by which a change of it is told.

use xoff_flow_control::settings::{
    Accounting, Culprit, Dcbx, EgressLimits, HeadroomPlace, LoopDetection, QueueKind, Trust, Turns, Weigh,
};

use crate::shell::{LogFormat, Mode, ReceiveChunks, Sighup, ZeroCopy};

/// One of a few things.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each of them, by its word.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word by which a file has it.
    fn word(self) -> &'static str {
        let named = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        named.map_or("", |(word, _)| word)
    }
}

/// The path that a frame takes of several with equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpreadKind {
    /// One path for each flow.
    #[default]
    Flow,
    /// A path for each frame.
    Frame,
    /// For each frame, the path with the shortest queue.
    Adaptive,
}

macro_rules! choices {
    ($($type:ident: $($word:literal => $variant:ident),+;)+) => {
        $(impl Choice for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $type::$variant)),+];
        })+

        #[cfg(test)]
        mod tests {
            use super::*;

            // Each variant is matched, so that none is without a word.
            #[test]
            fn each_has_a_word_of_its_own() {
                $(for (word, choice) in $type::WORDS {
                    match choice {
                        $($type::$variant)|+ => assert_eq!(choice.word(), *word),
                    }
                })+
            }
        }
    };
}

choices! {
    Accounting: "until-transmitted" => UntilTransmitted, "until-forwarded" => UntilForwarded;
    Culprit: "arrival" => Arrival, "occupancy-deterministic" => OccupancyDeterministic, "occupancy-random" => OccupancyRandom;
    Dcbx: "compare" => Compare, "willing" => Willing, "off" => Off;
    EgressLimits: "lossy" => Lossy, "all" => All;
    HeadroomPlace: "reserved" => Reserved, "pool" => Pool;
    LogFormat: "text" => Text, "json" => Json;
    LoopDetection: "alert" => Alert, "block" => Block, "off" => Off;
    Mode: "auto" => Auto, "native" => Native, "generic" => Generic;
    QueueKind: "fifo" => Fifo, "voq" => Voq;
    ReceiveChunks: "whole" => Whole, "small" => Small;
    Sighup: "stop" => Stop, "reload" => Reload;
    SpreadKind: "flow" => Flow, "frame" => Frame, "adaptive" => Adaptive;
    Trust: "both" => Both, "pcp" => Pcp, "dscp" => Dscp, "port" => Port;
    Turns: "round-robin" => RoundRobin, "random" => Random;
    Weigh: "frames" => Frames, "bytes" => Bytes;
    ZeroCopy: "auto" => Auto, "on" => On, "off" => Off;
}
