use xoff_flow_control::settings::{
    Accounting, CountUnit, Culprit, Dcbx, EgressLimits, HeadroomPlace, LoopDetection, QueueKind, Trust,
    Turns, UnknownGroups,
};

use crate::shell::{LogFormat, Mode, ReceiveChunks, Sighup, ZeroCopy};

/// Enumeration whose values are written as keywords, in files and in reports of changes.
pub trait Choice: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];

    fn word(self) -> &'static str {
        let named = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        named.map_or("", |(word, _)| word)
    }
}

/// Method by which a switch spreads frames over equal-cost paths, or over members of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpreadKind {
    /// All frames of a flow take the same path.
    #[default]
    Flow,
    /// Each frame takes a group's next member (round robin) or a random one; of next hops, always a random one.
    Frame,
    /// Each frame takes a path with a short queue.
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

            #[test]
            fn keywords_of_each_configuration_key_are_distinct() {
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
    UnknownGroups: "flood" => Flood, "routers" => Routers;
    CountUnit: "frames" => Frames, "bytes" => Bytes;
    ZeroCopy: "auto" => Auto, "on" => On, "off" => Off;
}
