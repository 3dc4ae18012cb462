use xoff_config::Choice as _;
use xoff_config::quantity::{bytes, rate, time};
use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Bytes, Class, Nanos};

use crate::report::Device;
use crate::setup::Setup;

impl Setup {
    /// Returns all settings from which limits follow, for the report.
    #[must_use]
    pub fn describe(&self) -> Device {
        let device = &self.device;
        let known = |text: Option<String>| text.unwrap_or_else(|| "not set".to_owned());
        let size = |size: Option<Bytes>| known(size.map(bytes));
        let source = |is_dcbx: bool| if is_dcbx { " (from DCBX)" } else { "" };
        let dscp_map = || {
            let from = source(device.from_dcbx.is_some_and(|from| from.dscp_map));
            ("dscp map", format!("{}{from}", ranges(&device.dscp_to_class)))
        };
        let span = |span: Option<Nanos>| known(span.map(time));
        let mut settings: Vec<(&str, String)> = vec![
            ("lossless", format!("{:?}{}", device.lossless, source(device.from_dcbx.is_some()))),
            ("obeys", format!("{:?}", device.obeys)),
            ("trust", device.trust.word().to_owned()),
            ("default class", device.default_class.to_string()),
        ];
        match device.trust {
            Trust::Pcp => settings.push(("pcp map", ranges(&device.pcp_to_class))),
            Trust::Dscp => settings.push(dscp_map()),
            Trust::Both => settings.extend([dscp_map(), ("pcp map", ranges(&device.pcp_to_class))]),
            Trust::Port => {}
        }
        settings.extend([
            ("mtu", device.mtu.to_string()),
            ("cable, one way", time(device.cable)),
            ("response allowance", time(device.response_allowance)),
            ("xoff", size(device.xoff)),
            ("xon", size(device.xon)),
            ("headroom", size(device.headroom)),
            ("frame overhead", bytes(device.frame_overhead)),
            ("cell", bytes(device.cell)),
            ("ecn, some packets", size(device.ecn.map(|[some, _]| some))),
            ("ecn, all packets", size(device.ecn.map(|[_, all]| all))),
            ("ecn probability", known(device.ecn_probability.map(|share| share.to_string()))),
            ("watchdog", span(device.watchdog)),
            ("watchdog restore", span(device.watchdog_restore)),
            ("watchdog action", device.watchdog_action.word().to_owned()),
            ("pause max", span(device.pause_max)),
            ("dcbx", if device.dcbx { "yes" } else { "no" }.to_owned()),
            ("counters", known(device.counters.clone())),
            ("soak", time(self.soak)),
        ]);
        let mut settings: Vec<_> =
            settings.into_iter().map(|(label, value)| (label.to_owned(), value)).collect();
        for (index, port) in self.ports.iter().enumerate() {
            let to = port.connected.as_deref().map(|name| format!(" to {name}")).unwrap_or_default();
            let vlan = port.vlan.map(|vlan| format!(", VLAN {vlan}")).unwrap_or_default();
            let value = format!("{}{to}, {}{vlan}", port.device, rate(port.speed));
            settings.push((format!("port {}", index + 1), value));
        }
        Device { name: device.name.clone(), settings }
    }
}

fn ranges(map: &[Class]) -> String {
    let mut code = 0;
    let range = |part: &[Class]| {
        let (first, last) = (code, code + part.len() - 1);
        code = last + 1;
        match first == last {
            true => format!("{first} = {}", part[0]),
            false => format!("{first}-{last} = {}", part[0]),
        }
    };
    map.chunk_by(|a, b| a == b).map(range).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::setup::DeviceSettings;

    #[test]
    fn test_report_lists_all_settings_of_device() {
        let text = r#"
            [device]
            lossless = [3, 4]
            obeys = [3]
            trust = "dscp"
            dscp_map = { 0-9 = 0, 26 = 3 }
            mtu = 9000
            cable = "100m"
            xoff = "100KB"
            xon = "90KB"
            headroom = "60KB"
            cell = 256
            ecn = "30KB"
            ecn_max = "60KB"
            ecn_probability = 0.5
            watchdog = "200ms"
            watchdog_restore = "400ms"
            watchdog_action = "forward"
            pause_max = "150ms"
            dcbx = true
            counters = "show"
            response_allowance = "2ms"

            [[port]]
            device = "a"
            speed = "1G"
            connected = "p1"
            vlan = 5

            [[port]]
            device = "b"
            speed = "1G"
        "#;
        let settings = Setup::from_toml("dut.toml", text).unwrap().describe().settings;
        let find = |label: &str| settings.iter().find(|(of, _)| of == label).map(|(_, value)| value.as_str());
        for (label, value) in [
            ("lossless", "{3, 4}"),
            ("obeys", "{3}"),
            ("trust", "dscp"),
            ("default class", "0"),
            ("mtu", "9000"),
            ("cable, one way", "500ns"),
            ("xoff", "100KB"),
            ("xon", "90KB"),
            ("headroom", "60KB"),
            ("frame overhead", "4B"),
            ("cell", "256B"),
            ("ecn, some packets", "30KB"),
            ("ecn, all packets", "60KB"),
            ("ecn probability", "0.5"),
            ("watchdog", "200ms"),
            ("watchdog restore", "400ms"),
            ("watchdog action", "forward"),
            ("pause max", "150ms"),
            ("dcbx", "yes"),
            ("counters", "show"),
            ("response allowance", "2ms"),
            ("port 1", "a to p1, 1Gb/s, VLAN 5"),
            ("port 2", "b, 1Gb/s"),
        ] {
            assert_eq!(find(label), Some(value), "{label}");
        }
        let map = find("dscp map").unwrap();
        assert!(map.starts_with("0-9 = 0, 10-15 = 1, 16-23 = 2, 24-31 = 3, 32-39 = 4, "), "{map}");
        let bare = DeviceSettings::new("a", xoff_config::defaults::LOSSLESS);
        let bare = Setup::of_nic("a", "b", BitRate::from_gbps(1), bare).describe();
        assert!(bare.settings.contains(&("xoff".to_owned(), "not set".to_owned())));
    }
}
