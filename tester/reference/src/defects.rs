//! Table of the reference switch's defects: name, case of `xoff test` that must find the defect, description.

use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defects([bool; Defect::ALL.len()]);

impl Default for Defects {
    fn default() -> Defects {
        Defects([false; Defect::ALL.len()])
    }
}

impl Defects {
    #[must_use]
    pub const fn has(self, defect: Defect) -> bool {
        self.0[defect as usize]
    }

    #[must_use]
    pub const fn with(mut self, defect: Defect) -> Defects {
        self.0[defect as usize] = true;
        self
    }
}

impl FromIterator<Defect> for Defects {
    fn from_iter<I: IntoIterator<Item = Defect>>(defects: I) -> Defects {
        defects.into_iter().fold(Defects::default(), Defects::with)
    }
}

macro_rules! defects {
    ($($defect:ident $name:literal $case:literal $sentence:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect {
            $(#[doc = $sentence] $defect,)*
        }

        impl Defect {
            pub const ALL: &[Defect] = &[$(Defect::$defect,)*];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Defect::$defect => $name,)* }
            }

            #[must_use]
            pub const fn case(self) -> &'static str {
                match self { $(Defect::$defect => $case,)* }
            }

            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Defect::$defect => $sentence,)* }
            }
        }
    };
}

defects! {
    QuantumHalf "quantum-half" "receive.expiry" "A received pause lasts half its time."
    QuantumDouble "quantum-double" "receive.expiry" "A received pause lasts twice its time."
    QuantumOtherSpeed "quantum-other-speed" "receive.expiry" "Pauses are timed as if the port had ten times its speed."
    TimeSwapped "time-swapped" "receive.expiry" "The bytes of a received pause time are swapped."
    TimeLowByte "time-low-byte" "receive.expiry" "Only the low byte of a received pause time counts."
    XonIgnored "xon-ignored" "receive.xon" "XON has no effect; a pause ends only by expiry."
    XonIgnoredLast "xon-ignored-last" "receive.xon" "XON for the highest lossless class has no effect."
    XonLate "xon-late" "receive.xon" "A class resumes 50 ms after XON."
    XonAfterXoffLost "xon-after-xoff-lost" "receive.xon" "PFC within 500 us of an earlier PFC frame has no effect."
    XonAll "xon-all" "receive.other-xon" "XON for one class resumes all classes."
    XonOfLastOnly "xon-of-last-only" "receive.other-xon" "XON has no effect while it leaves another class paused."
    ZeroWraps "zero-wraps" "receive.zero-time" "A pause time of zero pauses for 65,536 quanta."
    OneTimer "one-timer" "receive.timers" "All paused classes share one timer."
    TimerOfClass7 "timer-of-class-7" "receive.timers" "The timer of class 7 runs at twice the speed."
    XoffRestartsOthers "xoff-restarts-others" "receive.timers" "An XOFF restarts the timers of all paused classes."
    XoffEndsOthers "xoff-ends-others" "receive.timers" "An XOFF ends the pauses of all classes that it does not enable."
    LowestClassOnly "lowest-class-only" "receive.timers" "Only the lowest class of a PFC frame is obeyed."
    FirstValueWins "first-value-wins" "receive.longer" "A pause time that arrives during a pause is ignored."
    LargerValueWins "larger-value-wins" "receive.shorter" "A shorter pause time does not shorten a pause."
    RefreshAdds "refresh-adds" "receive.refresh" "A refresh adds its time to the rest of the pause."
    NextClass "next-class" "receive.stops-class" "PFC for class n pauses class n + 1."
    LastClassIgnored "last-class-ignored" "receive.timers" "PFC for the highest lossless class is ignored."
    StopsLate "stops-late" "receive.stops-class" "200 frames leave after XOFF before the class stops."
    PausedDropped "paused-dropped" "receive.stops-class" "Frames of a paused class are dropped instead of queued."
    PausesAll "pauses-all" "receive.only-class" "PFC for one class pauses all classes."
    LastPausesNext "last-pauses-next" "receive.only-class" "PFC for the highest lossless class also pauses the next class."
    PausesLossy "pauses-lossy" "receive.lossy-class" "A received PFC frame also pauses lossy classes."
    PausesHighestLossy "pauses-highest-lossy" "receive.lossy-class" "PFC for class 7, which is lossy, pauses it."
    VectorIgnored "vector-ignored" "receive.empty-vector" "Pause times of classes that a PFC frame does not enable are obeyed."
    EmptyVector "empty-vector" "receive.empty-vector" "A PFC frame that enables no class pauses all classes."
    WrongDestination "wrong-destination" "receive.other-destination" "PFC to any destination address is obeyed."
    WrongOpcode "wrong-opcode" "receive.other-opcode" "Any MAC control opcode is obeyed as PFC."
    WrongType "wrong-type" "receive.other-ethertype" "PFC with any EtherType is obeyed."
    Tagged "tagged" "receive.tagged" "PFC frames with a VLAN tag are obeyed."
    Truncated "truncated" "receive.truncated" "A PFC frame too short for all pause times is obeyed."
    StrictReserved "strict-reserved" "receive.reserved-byte" "PFC with a reserved byte that is not zero is ignored."
    StrictSource "strict-source" "receive.zero-source" "PFC from source address zero is ignored."
    StrictPadding "strict-padding" "receive.dirty-padding" "PFC with padding that is not zero is ignored."
    ObeysPause "obeys-pause" "receive.pause-802-3x" "An 802.3x PAUSE frame pauses all classes."
    RelaysPfc "relays-pfc" "receive.not-relayed" "PFC frames are flooded to all other ports."

    OtherDestination "other-destination" "send.format" "Sent PFC frames have destination 01:80:c2:00:00:02."
    BroadcastDestination "broadcast-destination" "send.format" "Sent PFC frames have the broadcast address as destination."
    ReservedSet "reserved-set" "send.format" "The reserved byte of sent PFC frames is not zero."
    ShortPfc "short-pfc" "send.format" "Sent PFC frames have 34 bytes, without padding."
    DirtyPadding "dirty-padding" "send.format" "The padding of sent PFC frames is not zero."
    OtherOpcode "other-opcode" "send.format" "Sent PFC frames have opcode 0x1001."
    SendsTagged "sends-tagged" "send.format" "Sent PFC frames have a VLAN tag."
    TimeOtherSlot "time-other-slot" "send.format" "Sent pause times are in the slot of class 7 - n."
    SourceZero "source-zero" "send.source" "Sent PFC frames have source address zero."
    SourceOfOther "source-of-other" "send.source" "Sent PFC frames have a group address as source."
    TimeSwappedSent "time-swapped-sent" "send.refresh" "The bytes of sent pause times are swapped."
    NoRefresh "no-refresh" "send.refresh" "XOFF is sent once, without refresh."
    RefreshLate "refresh-late" "send.refresh" "XOFF is refreshed half a pause time after the pause expired."
    NoXon "no-xon" "send.xon" "XON is never sent; pauses expire."
    NoXonLast "no-xon-last" "send.xon" "XON is never sent for the highest lossless class."
    XonSentLate "xon-sent-late" "send.xon" "XON is sent 60 ms too late."
    XonEnablesAll "xon-enables-all" "send.xon" "Each sent XON resumes all classes."
    XoffFirstPort "xoff-first-port" "send.incast" "XOFF is sent only on the port that was congested first."
    XoffLossy "xoff-lossy" "send.only-lossless" "XOFF is also sent for lossy classes."
    XoffAll "xoff-all" "send.only-held" "XOFF pauses all eight classes, not only the congested one."
    XoffBoth "xoff-both" "send.only-held" "XOFF pauses all lossless classes, not only the congested one."
    XoffNextClass "xoff-next-class" "send.before-loss" "XOFF for class n pauses class n + 1."
    XoffLowestOnly "xoff-lowest-only" "send.before-loss" "XOFF is sent for the lowest lossless class only."
    XoffUnasked "xoff-unasked" "send.spurious" "An idle class is paused every 50 ms."
    XoffAllPorts "xoff-all-ports" "send.spurious" "XOFF is sent on all ports, not only on the ingress port."
    XoffOtherPort "xoff-other-port" "send.before-loss" "XOFF is sent on the port after the ingress port."
    XoffAfterDrop "xoff-after-drop" "send.before-loss" "XOFF is sent only after a drop."

    HeadroomShort "headroom-short" "headroom.size" "The headroom lacks one frame of 1,518 bytes."
    HeadroomHalf "headroom-half" "headroom.size" "Half of the headroom is missing."
    CountsCells "counts-cells" "headroom.small-frames" "Ingress queues count frames in cells of 250 bytes."
    HeadroomOneClass "headroom-one-class" "headroom.two-classes" "Only the lowest lossless class has headroom."
    XoffTenth "xoff-tenth" "buffers.xoff" "XOFF is sent at a tenth of the threshold."
    XoffTenthLastPort "xoff-tenth-last-port" "buffers.xoff" "XOFF of the last port is sent at a tenth of the threshold."
    XonEarly "xon-early" "buffers.xon" "XON is sent as soon as the queue is below XOFF."
    XonEmpty "xon-empty" "buffers.xon" "XON is sent only when the queue is empty."
    XonEmptyLastClass "xon-empty-last-class" "buffers.xon" "XON of the highest lossless class is sent only when its queue is empty."

    DropsSmall "drops-small" "losslessness.sizes" "Frames of 64 bytes with FCS are dropped."
    DropsSmallCongested "drops-small-congested" "losslessness.incast-sizes" "Frames of 64 bytes are dropped while their queue is above half of XOFF."
    DropsJumbo "drops-jumbo" "losslessness.jumbo" "Frames above 1,518 bytes with FCS are dropped."
    CorruptsJumbo "corrupts-jumbo" "losslessness.jumbo" "One byte of each frame above 4,000 bytes is changed."
    LastOfBurst "last-of-burst" "losslessness.bursts" "A frame leaves only when another one is queued behind it."
    LosesAfterIdle "loses-after-idle" "losslessness.idle" "The first frame after 200 ms of silence is lost."
    Reorders "reorders" "losslessness.order" "Every 100th frame overtakes its predecessor."
    ShortOvertakes "short-overtakes" "losslessness.order" "A frame below 200 bytes overtakes a longer one of its class."
    Duplicates "duplicates" "losslessness.incast" "Every 500th frame is sent twice."
    LosesSome "loses-some" "losslessness.incast" "Every 500th frame is lost."
    Leaks "leaks" "losslessness.soak" "Each frame that leaves reduces the headroom by 16 bytes for good."
    FlapDuplicates "flap-duplicates" "losslessness.flap" "After a link flap, a port sends each frame twice."
    FlapKeepsPause "flap-keeps-pause" "losslessness.flap" "A pause that is active during a link flap never expires."
    FlapIgnoresPfc "flap-ignores-pfc" "losslessness.flap" "After a link flap, a port ignores PFC."

    HeadOfLine "head-of-line" "isolation.other-port" "Each ingress port has one queue for all egress ports."
    PauseStopsSwitch "pause-stops-switch" "isolation.other-port" "A pause at one port stops its class on all ports."
    PauseStopsAll "pause-stops-all" "isolation.other-ingress" "A pause at one port stops all classes on all ports."
    PausesPortPair "pauses-port-pair" "isolation.other-ingress" "A pause at a port also stops its class at the next port but one."
    OneEgressQueue "one-egress-queue" "isolation.other-class" "A paused class blocks all classes of its port."
    NeverLearns "never-learns" "isolation.floods" "Frames to known addresses are flooded."
    Reflects "reflects" "isolation.floods" "Frames are also sent back on their ingress port."

    DscpShifted "dscp-shifted" "map.dscp" "The DSCP is read from the wrong six bits, two bits too low."
    DscpOneWrong "dscp-one-wrong" "map.dscp" "DSCP 31 is mapped to class 2 instead of 3."
    PcpFourIsThree "pcp-four-is-three" "map.pcp" "PCP 4 is mapped to class 3."
    IngressMapDiffers "ingress-map-differs" "map.dscp-ingress" "Frames with DSCP 27 count as class 4 at ingress."
    Dscp63Wrong "dscp-63-wrong" "map.dscp-ingress" "Frames with DSCP 63 count as class 3 at ingress."
    PcpIngressDiffers "pcp-ingress-differs" "map.pcp-ingress" "Frames with PCP 3 count as class 4 at ingress."
    ForgetsPriority "forgets-priority" "map.rewrite" "The PCP of a forwarded tag becomes 0."
    StripsTag "strips-tag" "map.rewrite" "Forwarded frames lose their VLAN tag."
    ClearsDscp "clears-dscp" "map.rewrite" "The DSCP of forwarded packets becomes 0."
    NeverMarks "never-marks" "map.ecn" "No packet gets an ECN mark."
    MarksEarly "marks-early" "map.ecn" "Packets get an ECN mark at half of the threshold."
    MarksLate "marks-late" "map.ecn" "Packets get an ECN mark only at twice the threshold."
    MarksHalf "marks-half" "map.ecn-share" "Between both ECN thresholds, half as many packets get a mark."
    ClearsEcn "clears-ecn" "map.ecn" "ECN-capable packets leave as not ECN-capable."
    MarkChecksum "mark-checksum" "map.ecn" "ECN marks leave the IPv4 checksum unchanged."
    MarksNotEct "marks-not-ect" "map.ecn" "Packets that are not ECN-capable get an ECN mark."
    MarksAlways "marks-always" "map.ecn" "Packets get an ECN mark without congestion."

    WatchdogNever "watchdog-never" "watchdog.detection" "The watchdog detects no storm."
    WatchdogAtOnce "watchdog-at-once" "watchdog.detection" "The watchdog acts at once, without its detection time."
    WatchdogOtherClasses "watchdog-other-classes" "watchdog.only-class" "The watchdog drops all classes of the port."
    WatchdogForever "watchdog-forever" "watchdog.restoration" "The watchdog never restores a class."
    WatchdogLate "watchdog-late" "watchdog.detection" "The watchdog acts after four times its detection time."
    WatchdogRestoresLate "watchdog-restores-late" "watchdog.restoration" "The watchdog restores a class after ten times its restoration time."
    WatchdogRestoresEarly "watchdog-restores-early" "watchdog.restoration" "The watchdog restores a class as soon as its pause ends."
    WatchdogOtherAction "watchdog-other-action" "watchdog.action" "The watchdog forwards frames instead of dropping them, or the reverse."

    CountsNoPfcReceived "counts-no-pfc-received" "counters.pfc" "Received PFC frames are not counted."
    CountsNoPfcSent "counts-no-pfc-sent" "counters.pfc" "Sent PFC frames are not counted."
    CountsNoDrops "counts-no-drops" "counters.drops" "Drops are not counted."
    CountsNoStorms "counts-no-storms" "counters.watchdog" "Pause storms are not counted."
    CountsTwice "counts-twice" "counters.frames" "Received frames are counted twice."

    LldpOtherClasses "lldp-other-classes" "lldp.classes" "DCBX announces class n + 1 for each lossless class n."
    LldpAll "lldp-all" "lldp.classes" "DCBX announces PFC for all classes."
    LldpOnePort "lldp-one-port" "lldp.classes" "DCBX announces PFC classes at port 1 only."
    LldpSilent "lldp-silent" "lldp.present" "No LLDP is sent."
}

impl Defect {
    pub fn parse(name: &str) -> Result<Defect, String> {
        let named = Defect::ALL.iter().find(|defect| defect.name() == name);
        named.copied().ok_or_else(|| format!("no defect is named `{name}`; `--list-defects` lists all"))
    }
}

#[must_use]
pub fn list() -> String {
    Defect::ALL.iter().fold(String::new(), |mut text, defect| {
        let _ = writeln!(text, "{}\t{}\t{}", defect.name(), defect.case(), defect.sentence());
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_reference_switch_defect_has_its_own_name() {
        let names: HashSet<_> = Defect::ALL.iter().map(|defect| defect.name()).collect();
        assert_eq!(names.len(), Defect::ALL.len());
        for &defect in Defect::ALL {
            assert_eq!(Defect::parse(defect.name()), Ok(defect));
            let only: Defects = [defect].into_iter().collect();
            assert!(Defect::ALL.iter().all(|&other| only.has(other) == (other == defect)));
        }
    }
}
