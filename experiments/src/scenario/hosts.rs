//! `[hosts]`: how hosts send, and how they answer.

use xoff_config::Problem;
use xoff_config::reader::{Problems, Table, value};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::keys::{DcqcnKeys, HostKeys, QcnKeys, SwiftKeys, TimelyKeys};

/// How hosts send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// As fast as the line takes it; nobody answers.
    #[default]
    LineRate,
    /// Reliable and in order, as RDMA over Converged Ethernet.
    Roce,
}

impl Transport {
    pub(super) const WORDS: &'static [(&'static str, Transport)] =
        &[("line-rate", Transport::LineRate), ("roce", Transport::Roce)];
}

/// What slows senders down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// PFC alone.
    #[default]
    None,
    /// Marks and notifications.
    Dcqcn,
    /// Delay against a target.
    Swift,
    /// How delay changes.
    Timely,
    /// Notifications of switches, with any transport.
    Qcn,
}

impl Control {
    pub(super) const WORDS: &'static [(&'static str, Control)] = &[
        ("none", Control::None),
        ("dcqcn", Control::Dcqcn),
        ("swift", Control::Swift),
        ("timely", Control::Timely),
        ("qcn", Control::Qcn),
    ];
}

/// How hosts answer pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Obeys {
    /// At once.
    #[default]
    AtOnce,
    /// So late.
    After(Nanos),
    /// Not at all.
    Never,
}

/// What all hosts are like. What is `None` is as the simulator has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hosts {
    /// How they send.
    pub transport: Transport,
    /// What slows them down.
    pub control: Control,
    /// Most payload of a frame.
    pub payload: Option<u32>,
    /// How they answer pauses.
    pub pauses: Obeys,
    /// They obey lists of flows.
    pub ofc: bool,
    /// They keep rates.
    pub gfc: bool,
    /// Most that may be on its way unacknowledged.
    pub window: Option<Bytes>,
    /// Frames that are acknowledged at once.
    pub ack_every: Option<u32>,
    /// The class of acknowledgements.
    pub ack_class: Option<Class>,
    /// A sender that has waited so long goes back.
    pub timeout: Option<Nanos>,
    /// Of `control = "dcqcn"`.
    pub dcqcn: Dcqcn,
    /// Of `control = "swift"`.
    pub swift: Swift,
    /// Of `control = "timely"`.
    pub timely: Timely,
    /// Of `control = "qcn"`.
    pub qcn: Qcn,
}

macro_rules! parameters {
    ($(#[$doc:meta])* struct $name:ident from $keys:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: Option<$type>,)* }

        impl From<&$keys> for $name {
            fn from(keys: &$keys) -> $name {
                $name { $($field: keys.$field.as_ref().map(|key| key.value),)* }
            }
        }
    };
}

parameters! {
    /// `[hosts.dcqcn]`; what is `None` is as the simulator has it.
    #[allow(missing_docs)] // docs/simulation.md has them all
    struct Dcqcn from DcqcnKeys {
        gain: f64, alpha_timer: Nanos, increase_timer: Nanos, byte_counter: Bytes, fast_recovery: u32, additive: BitRate,
        hyper: BitRate, rate_min: BitRate, cnp_interval: Nanos, cnp_class: Class,
    }
}

parameters! {
    /// `[hosts.swift]`; what is `None` is as the simulator has it.
    #[allow(missing_docs)] // docs/simulation.md has them all
    struct Swift from SwiftKeys {
        target: Nanos, additive: f64, decrease: f64, decrease_max: f64, flow_range: Nanos,
    }
}

parameters! {
    /// `[hosts.timely]`; what is `None` is as the simulator has it.
    #[allow(missing_docs)] // docs/simulation.md has them all
    struct Timely from TimelyKeys {
        gain: f64, decrease: f64, additive: BitRate, low: Nanos, high: Nanos, idle: Nanos, hyper_after: u32,
        rate_min: BitRate,
    }
}

parameters! {
    /// `[hosts.qcn]`; what is `None` is as the standard has it.
    #[allow(missing_docs)] // docs/simulation.md has them all
    struct Qcn from QcnKeys {
        decrease: u32, fast_recovery: u32, byte_counter: Bytes, timer: Nanos, additive: BitRate, hyper: BitRate,
        rate_min: BitRate, jitter: u8,
    }
}

pub(super) fn read(table: &Table<'_, '_>, problems: &mut Problems) -> Hosts {
    table.no_others(&[HostKeys::KEYS, &["dcqcn", "swift", "timely", "qcn"]], problems);
    let keys = HostKeys::read(table, problems);
    let (transport, control) = (
        value(keys.transport.as_ref(), Transport::default()),
        value(keys.control.as_ref(), Control::default()),
    );
    let of_roce_alone = !matches!(control, Control::None | Control::Qcn);
    let of_roce = [
        ("control", keys.control.as_ref().filter(|_| of_roce_alone).map(|key| key.span)),
        ("window", keys.window.as_ref().map(|key| key.span)),
        ("ack_every", keys.ack_every.as_ref().map(|key| key.span)),
        ("ack_class", keys.ack_class.as_ref().map(|key| key.span)),
        ("timeout", keys.timeout.as_ref().map(|key| key.span)),
    ];
    for (name, span) in of_roce.iter().filter(|_| transport == Transport::LineRate) {
        if let Some(span) = *span {
            problems.push(
                Problem::error(format!("`{name}` has no meaning where nobody answers"))
                    .at(span, "not with transport = \"line-rate\"")
                    .help("write transport = \"roce\""),
            );
        }
    }
    let mut parameters =
        (DcqcnKeys::default(), SwiftKeys::default(), TimelyKeys::default(), QcnKeys::default());
    for (name, of) in Control::WORDS.iter().filter(|(_, of)| *of != Control::None) {
        let Some(below) = table.table(name, problems) else { continue };
        if control != *of {
            problems.push(
                Problem::error(format!("[hosts.{name}] has no meaning where `control` is something else"))
                    .at(below.span, "of no effect")
                    .help(format!("write control = \"{name}\" in [hosts]")),
            );
        }
        match of {
            Control::Dcqcn => {
                below.no_others(&[DcqcnKeys::KEYS], problems);
                parameters.0 = DcqcnKeys::read(&below, problems);
            }
            Control::Swift => {
                below.no_others(&[SwiftKeys::KEYS], problems);
                parameters.1 = SwiftKeys::read(&below, problems);
            }
            Control::Qcn => {
                below.no_others(&[QcnKeys::KEYS], problems);
                parameters.3 = QcnKeys::read(&below, problems);
            }
            Control::Timely | Control::None => {
                below.no_others(&[TimelyKeys::KEYS], problems);
                parameters.2 = TimelyKeys::read(&below, problems);
            }
        }
    }
    Hosts {
        transport,
        control,
        payload: keys.payload.map(|key| key.value),
        pauses: value(keys.pauses.as_ref(), Obeys::AtOnce),
        ofc: value(keys.ofc.as_ref(), false),
        gfc: value(keys.gfc.as_ref(), false),
        window: keys.window.and_then(|key| key.value.into_option()),
        ack_every: keys.ack_every.map(|key| key.value),
        ack_class: keys.ack_class.map(|key| key.value),
        timeout: keys.timeout.map(|key| key.value),
        dcqcn: (&parameters.0).into(),
        swift: (&parameters.1).into(),
        timely: (&parameters.2).into(),
        qcn: (&parameters.3).into(),
    }
}
