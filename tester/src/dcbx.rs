//! Takes the lossless classes, and the DSCP map, from the LLDP frames of the device (DCBX).

use xoff_wire::Header;
use xoff_wire::dcbx::{Application, selector};
use xoff_wire::lldp::{self, Lldpdu, Tlv};
use xoff_wire::units::{Class, ClassSet, Nanos};

use crate::bench::{Bench, Void};
use crate::setup::DeviceSettings;

/// Maximum wait for an LLDP frame: the interval (30 s, 802.1AB 9.2.5.7) plus a reserve.
pub(crate) const WAIT: Nanos = Nanos::from_secs(32);
const PORT: usize = 0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Announced {
    /// Classes with PFC; `None` if the frame has no PFC TLV.
    pub classes: Option<ClassSet>,
    /// DSCPs of the application TLV, with their classes.
    pub dscps: Vec<(u16, Class)>,
}

pub(crate) fn read(frame: &[u8]) -> Option<Announced> {
    Header::parse(frame).ok().filter(lldp::is_lldp)?;
    let unit = Lldpdu::parse(frame.get(14..)?).ok()?;
    let (mut pfc, mut cee, mut applications) = (None, None, Vec::<Application>::new());
    for tlv in unit.tlvs().flatten() {
        match tlv {
            Tlv::Pfc(state) => pfc = Some(state),
            Tlv::Cee(features) => cee = features.pfc(),
            Tlv::Applications(list) => applications.extend(list.iter()),
            _ => {}
        }
    }
    let of_dscp = applications.iter().filter(|application| application.selector == selector::DSCP);
    Some(Announced {
        classes: pfc.or(cee).map(|state| state.classes),
        dscps: of_dscp.map(|application| (application.protocol, application.class)).collect(),
    })
}

impl Announced {
    fn has_classes(&self) -> bool {
        self.classes.is_some_and(|classes| !classes.is_empty())
    }

    fn apply(&self, device: &mut DeviceSettings) {
        let (Some(mut from), Some(lossless)) = (device.from_dcbx, self.classes) else { return };
        device.lossless = lossless;
        if from.obeys {
            device.obeys = lossless;
        }
        from.dscp_map &= !self.dscps.is_empty();
        for (dscp, class) in self.dscps.iter().filter(|_| from.dscp_map) {
            if let Some(of) = device.dscp_to_class.get_mut(usize::from(*dscp)) {
                *of = *class;
            }
        }
        device.from_dcbx = Some(from);
    }
}

/// Waits for an LLDP frame that enables PFC, and takes its settings.
pub(crate) fn adopt(bench: &mut Bench, tell: &mut dyn FnMut(&str)) -> Result<(), Void> {
    if bench.setup.device.from_dcbx.is_none() {
        return Ok(());
    }
    let (seconds, interface) = (WAIT.0 / 1_000_000_000, bench.port(PORT).settings.device.clone());
    tell(&format!(
        "waiting up to {seconds} s for an LLDP frame of the device at {interface}, for its lossless classes"
    ));
    let (mut count, mut last) = (0, None);
    bench.run_until(WAIT, |bench| {
        let frames = bench.others(PORT);
        let mut new = frames[count..].iter().filter_map(|frame| read(&frame.bytes));
        last = new.next_back().or(last.take());
        count = frames.len();
        last.as_ref().is_some_and(Announced::has_classes)
    })?;
    let fault = match last {
        Some(announced) if announced.has_classes() => {
            announced.apply(&mut bench.setup.device);
            tell(&format!("lossless classes from DCBX: {:?}", bench.setup.device.lossless));
            return Ok(());
        }
        Some(Announced { classes: Some(_), .. }) => "LLDP frames whose PFC TLV enables no class",
        Some(_) => "LLDP frames without PFC TLV (DCBX)",
        None => "no LLDP frame",
    };
    Err(Void::NotPossible(format!(
        "within {seconds} s {interface} received {fault}: set `lossless` of [device], or let the device send DCBX"
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::dcbx::{Applications, PfcState};
    use xoff_wire::lldp::{Id, LEN_MAX, Writer};
    use xoff_wire::units::MacAddr;

    use super::*;
    use crate::Setup;

    fn frame(tlvs: &[Tlv<'_>]) -> Vec<u8> {
        let mut bytes = [0; LEN_MAX];
        let mut writer = Writer::new(&mut bytes, MacAddr([2, 0, 0, 0, 1, 1]));
        let id = Id { subtype: 5, value: b"p1" };
        for tlv in [Tlv::ChassisId(id), Tlv::PortId(id), Tlv::Ttl(120)].iter().chain(tlvs) {
            assert!(writer.push(tlv));
        }
        writer.finish().to_vec()
    }

    fn applied(device: &str, frame: &[u8]) -> DeviceSettings {
        let ports = "[[port]]\ndevice = \"a\"\nspeed = \"1G\"\n[[port]]\ndevice = \"b\"\nspeed = \"1G\"";
        let text = format!("[device]\ndcbx = true\n{device}\n{ports}");
        let mut device = Setup::from_toml("dut.toml", &text).unwrap().device;
        read(frame).unwrap().apply(&mut device);
        device
    }

    fn classes(of: &[usize]) -> ClassSet {
        of.iter().map(|class| Class::ALL[*class]).collect()
    }

    #[test] // proves: conformance
    fn device_settings_follow_dcbx_unless_file_has_them() {
        let pfc = Tlv::Pfc(PfcState { classes: classes(&[2, 5]), ..PfcState::default() });
        let application = |class: usize, selector, protocol| {
            Application { class: Class::ALL[class], selector, protocol }.to_bytes()
        };
        let list = [
            application(5, selector::DSCP, 26),
            application(2, selector::DSCP, 70), // no DSCP
            application(3, selector::UDP_PORT, 40),
        ];
        let frame = frame(&[pfc, Tlv::Applications(Applications::new(&list))]);
        let device = applied("", &frame);
        assert_eq!((device.lossless, device.obeys), (classes(&[2, 5]), classes(&[2, 5])));
        assert_eq!(device.dscp_to_class[26], Class::ALL[5]);
        assert_eq!(device.dscp_to_class[40], Class::ALL[5], "DSCP / 8 without an application");
        assert_eq!(device.dscp_to_class[27], Class::ALL[3]);
        let device = applied("obeys = [2]\ndscp_map = { 26 = 4 }", &frame);
        assert_eq!((device.lossless, device.obeys), (classes(&[2, 5]), classes(&[2])));
        assert_eq!(device.dscp_to_class[26], Class::ALL[4]);
        let device = applied("lossless = [3]", &frame);
        assert_eq!((device.lossless, device.dscp_to_class[26]), (classes(&[3]), Class::ALL[3]));
    }

    #[test]
    fn dcbx_frame_without_pfc_has_no_classes() {
        let none = Tlv::Pfc(PfcState::default());
        for (frame, lossless) in [(frame(&[]), None), (frame(&[none]), Some(ClassSet::NONE))] {
            let announced = read(&frame).unwrap();
            assert_eq!((announced.classes, announced.has_classes()), (lossless, false));
        }
        assert_eq!(read(&[0; 60]), None);
    }

    #[test]
    fn classes_of_predecessor_cee_are_read() {
        let features =
            [&[0x02, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0x06, 6, 0, 0, 0x80, 0, 0b1_1000, 8][..]]
                .concat();
        let tlv = [&[0x00, 0x1b, 0x21, 2][..], &features[..]].concat();
        let announced = read(&frame(&[Tlv::Other(127, &tlv)])).unwrap();
        assert_eq!(announced.classes, Some(classes(&[3, 4])));
    }
}
