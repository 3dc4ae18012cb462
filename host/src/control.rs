//! Builds control frames for tests: well-formed frames, or frames with intended errors.

use std::net::SocketAddr;

use xoff_wire::units::{Class, ClassSet, MacAddr, Quanta, RateStep};
use xoff_wire::{FlowKey, FlowPauseWriter, MacControl, Operation, Pfc, Rates, ofc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    Pause(MacControl),
    Rates(Rates),
    Flows {
        operation: Operation,
        class: Class,
        /// Flows to pause or resume: at least one, and at most as many as fit into a frame.
        flows: Vec<FlowKey>,
    },
}

impl Control {
    fn encode(&self, src: MacAddr) -> Vec<u8> {
        match self {
            Control::Pause(pause) => pause.encode(src).to_vec(),
            Control::Rates(rates) => rates.encode(src).to_vec(),
            Control::Flows { operation, class, flows } => {
                let mut bytes = [0; ofc::LEN_MAX];
                let mut writer = FlowPauseWriter::new(&mut bytes, src, *operation, *class);
                flows.iter().for_each(|flow| _ = writer.push(flow));
                writer.finish().to_vec()
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distortion {
    pub overwrites: Vec<Overwrite>,
    /// Length in bytes to which the frame is cut.
    pub truncate: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    offset: usize,
    bytes: Vec<u8>,
}

#[must_use]
pub fn build(control: &Control, address: MacAddr, distortion: &Distortion) -> Vec<u8> {
    let mut bytes = control.encode(address);
    for Overwrite { offset, bytes: others } in &distortion.overwrites {
        bytes.iter_mut().skip(*offset).zip(others).for_each(|(byte, other)| *byte = *other);
    }
    bytes.truncate(distortion.truncate.unwrap_or(usize::MAX));
    bytes
}

/// Parses a control frame given on the command line:
///
/// * `3=65535,4=0`, `all=100`, `802.3x=100`: pauses, in quanta;
/// * `gfc:3=2@65535`: limits class 3 to rate step 2, a quarter (1/2²) of the line rate, for 65535 quanta;
/// * `ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791@65535`: pauses a flow of class 3; 0 quanta resume it.
pub fn parse_control(text: &str) -> Result<Control, String> {
    match text.split_once(':') {
        Some(("gfc", rates)) => parse_rates(rates).map(Control::Rates),
        Some(("ofc", list)) => parse_list(list),
        _ => parse_pause(text).map(Control::Pause),
    }
}

/// Parses an option that overwrites bytes of a frame: `38=0203` writes the bytes 02 and 03 (hexadecimal) from offset 38
/// on.
pub fn parse_overwrite(text: &str) -> Result<Overwrite, String> {
    let read = || {
        let (offset, digits) = text.split_once('=')?;
        let offset = offset.parse().ok().filter(|offset| *offset < ofc::LEN_MAX)?;
        let pairs =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let bytes: Vec<u8> = pairs.collect::<Option<_>>()?;
        (!bytes.is_empty()).then_some(Overwrite { offset, bytes })
    };
    read().ok_or_else(|| {
        format!("overwritten bytes must have the form OFFSET=HEX, such as 41=03 or 38=0203; the maximum offset is {}", ofc::LEN_MAX - 1)
    })
}

fn parse_rates(text: &str) -> Result<Rates, String> {
    let read = || {
        let (steps, time) = text.split_once('@')?;
        let rates = Rates { time: Quanta(time.parse().ok()?), ..Rates::default() };
        steps.split(',').try_fold(rates, |rates, part| {
            let (class, step) = part.split_once('=')?;
            let step = RateStep::new(step.parse().ok()?)?;
            Some(rates.with(Class::new(class.parse().ok()?)?, step))
        })
    };
    read().ok_or_else(|| {
        "rates must have the form gfc:CLASS=STEP,...@QUANTA, such as gfc:3=2@65535; steps are 0 to 16"
            .to_owned()
    })
}

fn parse_list(text: &str) -> Result<Control, String> {
    let read = || {
        let (list, time) = text.rsplit_once('@')?;
        let operation = match time.parse().ok()? {
            0 => Operation::Resume,
            quanta => Operation::Pause(Quanta(quanta)),
        };
        let (class, flows) = list.split_once('=')?;
        let class = Class::new(class.parse().ok()?)?;
        let flows: Vec<FlowKey> = flows.split(',').map(parse_flow).collect::<Option<_>>()?;
        Some((operation, class, flows))
    };
    let (operation, class, flows) = read().ok_or_else(|| {
        "a list is ofc:CLASS=FLOW,...@QUANTA such as ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791@65535; a flow is udp, \
         tcp or a hexadecimal EtherType, source and destination; 0 quanta resume"
            .to_owned()
    })?;
    let mut frame = [0; ofc::LEN_MAX];
    let mut writer = FlowPauseWriter::new(&mut frame, MacAddr::default(), operation, class);
    if flows.iter().all(|flow| writer.push(flow)) {
        return Ok(Control::Flows { operation, class, flows });
    }
    Err(format!("{} flows do not fit into a frame; list at most {}", flows.len(), writer.flows()))
}

/// Parses `udp/10.0.0.1:1000/10.0.0.2:4791` (IPv4), or `88b5/02:00:00:00:00:01/02:00:00:00:00:02` (EtherType and MAC
/// addresses).
fn parse_flow(text: &str) -> Option<FlowKey> {
    let mut parts = text.split('/');
    let [kind, src, dst] = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() {
        return None;
    }
    let protocol = match kind {
        "udp" => 17,
        "tcp" => 6,
        ether_type => {
            let ether_type = u16::from_str_radix(ether_type, 16).ok()?;
            return Some(FlowKey::L2 { src: MacAddr::parse(src)?, dst: MacAddr::parse(dst)?, ether_type });
        }
    };
    match (src.parse().ok()?, dst.parse().ok()?) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
            let (ports, src, dst) = ([src.port(), dst.port()], src.ip().octets(), dst.ip().octets());
            Some(FlowKey::V4 { protocol, ports, src, dst })
        }
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
            let (ports, src, dst) = ([src.port(), dst.port()], src.ip().octets(), dst.ip().octets());
            Some(FlowKey::V6 { protocol, ports, src, dst })
        }
        _ => None,
    }
}

fn parse_pause(text: &str) -> Result<MacControl, String> {
    let allowed = || {
        "a pause must have the form CLASS=QUANTA, such as 3=65535,4=0 or all=100, or 802.3x=QUANTA; quanta are 0 to 65535"
            .to_owned()
    };
    let quanta = |value: &str| value.parse().map(Quanta).map_err(|_| allowed());
    if let Some(time) = text.strip_prefix("802.3x=") {
        return Ok(MacControl::Pause(quanta(time)?));
    }
    let mut pfc = Pfc::default();
    for part in text.split(',') {
        let (classes, time) = part.split_once('=').ok_or_else(allowed)?;
        let classes = match classes {
            "all" => ClassSet::ALL,
            class => class.parse().ok().and_then(Class::new).into_iter().collect(),
        };
        if classes.is_empty() {
            return Err(allowed());
        }
        let time = quanta(time)?;
        pfc = classes.iter().fold(pfc, |pfc, class| pfc.with(class, time));
    }
    Ok(MacControl::Pfc(pfc))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_wire::{FlowPause, Header, MacControlError};

    const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const C3: Class = Class::ALL[3];

    fn frame(what: &str, distortion: &Distortion) -> Vec<u8> {
        build(&parse_control(what).unwrap(), ADDRESS, distortion)
    }

    fn overwritten(what: &str) -> Distortion {
        Distortion { overwrites: vec![parse_overwrite(what).unwrap()], ..Distortion::default() }
    }

    fn read(bytes: &[u8]) -> Result<MacControl, MacControlError> {
        MacControl::parse(&Header::parse(bytes).unwrap(), bytes)
    }

    fn list(bytes: &[u8]) -> Result<Option<FlowPause<'_>>, MacControlError> {
        FlowPause::of_frame(&Header::parse(bytes).unwrap(), bytes)
    }

    fn rates(bytes: &[u8]) -> Result<Option<Rates>, MacControlError> {
        let MacControl::Pfc(pfc) = read(bytes)? else { panic!("not PFC") };
        Rates::parse(&pfc, bytes)
    }

    #[test]
    fn command_line_pause_yields_pause_frame() {
        let expected = Pfc::default().with(C3, Quanta(65535)).with(Class::ALL[4], Quanta(0));
        assert_eq!(parse_pause("3=65535,4=0"), Ok(MacControl::Pfc(expected)));
        let all = Class::ALL.into_iter().fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(7)));
        assert_eq!(parse_pause("all=7"), Ok(MacControl::Pfc(all)));
        assert_eq!(parse_pause("802.3x=9"), Ok(MacControl::Pause(Quanta(9))));
        for wrong in ["", "3", "8=1", "3=65536", "3=1,", "x=1", "802.3x=x"] {
            assert!(parse_control(wrong).unwrap_err().contains("3=65535"), "{wrong}");
        }
    }

    #[test]
    fn command_line_rates_yield_rate_frame() {
        let good = Rates { time: Quanta(9), ..Rates::default() }.with(C3, RateStep::new(2).unwrap());
        assert_eq!(rates(&frame("gfc:3=2@9", &Distortion::default())), Ok(Some(good)));
        for wrong in ["gfc:", "gfc:3=2", "gfc:3=17@9", "gfc:8=1@9", "gfc:3@9", "gfc:3=1@65536"] {
            assert!(parse_control(wrong).unwrap_err().contains("gfc:3=2@65535"), "{wrong}");
        }
    }

    #[test]
    fn command_line_flow_list_yields_flow_list_frame() {
        let three = "ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791,tcp/[fd00::1]:1/[fd00::2]:80,\
                     88b5/02:00:00:00:00:01/02:00:00:00:00:02@9";
        let bytes = frame(three, &Distortion::default());
        let read = list(&bytes).unwrap().unwrap();
        assert_eq!((read.operation, read.class), (Operation::Pause(Quanta(9)), C3));
        let [v4, v6, l2] = read.flows().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(
            v4,
            FlowKey::V4 { protocol: 17, ports: [1000, 4791], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
        );
        assert!(matches!(v6, FlowKey::V6 { protocol: 6, ports: [1, 80], .. }), "{v6:?}");
        assert!(
            matches!(l2, FlowKey::L2 { ether_type: 0x88b5, dst: MacAddr([2, 0, 0, 0, 0, 2]), .. }),
            "{l2:?}"
        );
        let bytes = frame("ofc:3=udp/10.0.0.1:1/10.0.0.2:2@0", &Distortion::default());
        assert_eq!(list(&bytes).unwrap().unwrap().operation, Operation::Resume);
    }

    #[test]
    fn error_of_invalid_flow_list_shows_a_valid_example() {
        let flow = "udp/10.0.0.1:1/10.0.0.2:2";
        for wrong in [
            "ofc:".to_owned(),
            format!("ofc:8={flow}@9"),
            format!("ofc:3={flow}"),
            format!("ofc:3={flow}@65536"),
            format!("ofc:3={flow},@9"),
            format!("ofc:3={flow}/x@9"),
            "ofc:3=udp/10.0.0.1:1/[fd00::2]:2@9".to_owned(),
            "ofc:3=icmp/10.0.0.1:1/10.0.0.2:2@9".to_owned(),
            "ofc:3=88b5/10.0.0.1:1/10.0.0.2:2@9".to_owned(),
        ] {
            let message = parse_control(&wrong).unwrap_err();
            assert!(
                message.contains("such as ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791@65535"),
                "{wrong}: {message}"
            );
        }
        let many = vec![flow; 106].join(",");
        let message = parse_control(&format!("ofc:3={many}@9")).unwrap_err();
        assert_eq!(message, "106 flows do not fit into a frame; list at most 105");
        assert!(parse_control(&format!("ofc:3={}@9", vec![flow; 105].join(","))).is_ok());
    }

    #[test]
    fn pause_with_wrong_address_opcode_or_length_is_refused() {
        let parse = |distortion: Distortion| read(&frame("3=100", &distortion));
        assert_eq!(parse(overwritten("16=ff")), Ok(parse_pause("3=100").unwrap()), "reserved");
        assert_eq!(parse(overwritten("17=00")), Ok(MacControl::Pfc(Pfc::default())));
        assert_eq!(parse(overwritten("0=ffffffffffff")), Err(MacControlError::WrongDestination));
        assert_eq!(parse(overwritten("14=0102")), Err(MacControlError::UnknownOpcode));
        let cut = Distortion { truncate: Some(33), ..Distortion::default() };
        assert_eq!(parse(cut), Err(MacControlError::Truncated));
    }

    #[test] // proves: traffic
    fn flow_list_or_rate_frame_with_invalid_field_is_refused() {
        let (flows, steps) = ("ofc:3=udp/10.0.0.1:1/10.0.0.2:2@9", "gfc:3=2@9");
        for (what, why) in [
            ("41=03", "the frame is too short for its number of flows"),
            ("38=03", "the operation is unknown"),
            ("42=05", "the address family is unknown"),
        ] {
            assert_eq!(list(&frame(flows, &overwritten(what))), Err(MacControlError::FlowList), "{why}");
        }
        for (what, why) in
            [("43=11", "the rate step is too large"), ("17=08", "the rate frame also pauses class 3")]
        {
            assert_eq!(rates(&frame(steps, &overwritten(what))), Err(MacControlError::Rates), "{why}");
        }
        let cut = Distortion { truncate: Some(49), ..Distortion::default() };
        assert_eq!(rates(&frame(steps, &cut)), Err(MacControlError::Rates));
        assert_eq!(
            frame(steps, &overwritten("59=0102")).len(),
            60,
            "an overwrite beyond the end of the frame must not change its length"
        );
        for wrong in ["", "41", "41=", "41=3", "41=xx", "1514=00", "=03"] {
            assert!(parse_overwrite(wrong).unwrap_err().contains("41=03"), "{wrong}");
        }
    }
}
