use std::collections::{BTreeMap, VecDeque};

use xoff_flow_control::classify::Classifier;
use xoff_flow_control::pause::{Held, Paused};
use xoff_flow_control::settings::{ClassSettings, PortSettings};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

use super::super::arbiter::Arbiter;
use super::super::reassembly::Reassembly;
use crate::pool::Packet;

/// Virtual output queue (VOQ): frames of one class from one input to one output.
#[derive(Debug, Default)]
pub(super) struct Voq {
    pub(super) waiting: VecDeque<u32>,
    pub(super) next: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) class: Class,
    pub(super) size: Bytes,
    pub(super) cells: u8,
}

#[derive(Debug)]
pub(super) struct ServerPort {
    pub(super) settings: PortSettings,
    pub(super) classifier: Classifier,
    pub(super) buffered: [Bytes; CLASSES],
    pub(super) voqs: BTreeMap<(u16, Class), Voq>,
    pub(super) held: Held,
    pub(super) sends_pauses: ClassSet,
    pub(super) arbiters: [Arbiter; CLASSES],
    pub(super) reassembly: Reassembly,
    pub(super) queues: [VecDeque<u32>; CLASSES],
    pub(super) backlogged: ClassSet,
    pub(super) last_class: usize,
    pub(super) notices: VecDeque<Packet>,
    pub(super) paused: Paused,
    pub(super) is_busy: bool,
    pub(super) sending: Option<Sending>,
}

pub(super) fn input_most(settings: &ClassSettings) -> Bytes {
    if settings.lossless { settings.ingress_most() } else { settings.ingress_max.min(settings.egress_max) }
}

pub(super) fn input_frames(settings: &ClassSettings) -> u32 {
    u32::try_from(input_most(settings).0 / Bytes::of_frame(0).0).unwrap_or(u32::MAX)
}

impl ServerPort {
    pub(super) fn new(settings: &PortSettings, credits: u32) -> ServerPort {
        ServerPort {
            classifier: Classifier::new(settings),
            buffered: [Bytes::ZERO; CLASSES],
            voqs: BTreeMap::new(),
            held: Held::new(settings.refresh),
            sends_pauses: settings.sends(),
            arbiters: [(); CLASSES].map(|()| Arbiter::new(credits)),
            reassembly: Reassembly::default(),
            queues: Default::default(),
            backlogged: ClassSet::NONE,
            last_class: 0,
            notices: VecDeque::new(),
            paused: Paused::new(settings.speed),
            is_busy: false,
            sending: None,
            settings: settings.clone(),
        }
    }

    pub(super) fn next_timer(&self) -> Nanos {
        self.held.next_refresh().min(self.paused.next_expiry())
    }

    pub(super) fn next_class(&self) -> Option<Class> {
        let ready = ClassSet(self.backlogged.0 & !self.paused.blocked().0);
        let order = (1..=CLASSES).map(|ahead| Class::ALL[(self.last_class + ahead) % CLASSES]);
        order.into_iter().find(|class| ready.contains(*class))
    }

    pub(super) fn packets(&self) -> usize {
        self.notices.len() + self.reassembly.packets()
    }
}
