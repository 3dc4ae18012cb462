use std::collections::BTreeMap;

use xoff_netns_tests::{Bed, Host, frames, wait_for};

use crate::bed;

const MAPS: &str = "
    default_class = 5
    pcp_map = { 0 = 7, 1 = 6, 2 = 5, 3 = 4, 4 = 3, 5 = 2, 6 = 1, 7 = 0 }
    dscp_map = { 0-7 = 3, 8-15 = 4, 16-23 = 5, 24-31 = 6, 32-39 = 7, 40-45 = 0, 46 = 7, 47 = 0, 48-55 = 1, 56-63 = 2 }
";

#[derive(Clone, Copy, Debug)]
struct Kind {
    tag: Option<(u8, u16)>,
    dscp: Option<(Family, u8)>,
}

#[derive(Clone, Copy, Debug)]
enum Family {
    V4,
    V6,
}

impl Kind {
    fn all() -> Vec<Kind> {
        let tags = (0..8).flat_map(|pcp| [Some((pcp, 0)), Some((pcp, 1))]).chain([None]);
        let dscps =
            || (0..64).flat_map(|dscp| [Some((Family::V4, dscp)), Some((Family::V6, dscp))]).chain([None]);
        tags.flat_map(|tag| dscps().map(move |dscp| Kind { tag, dscp })).collect()
    }

    fn frame(self, from: &Host, to: &Host, number: u32) -> Vec<u8> {
        let frame = from.to(to);
        let frame = match self.tag {
            Some((pcp, vid)) => frame.tag(pcp, vid),
            None => frame,
        };
        match self.dscp {
            Some((Family::V4, dscp)) => frame.udp(dscp, &number.to_be_bytes()),
            Some((Family::V6, dscp)) => frame.ipv6(dscp, &number.to_be_bytes()),
            None => frame.numbered(number),
        }
        .build()
    }

    fn class(self, trust: &str) -> u8 {
        let by_pcp = self.tag.map(|(pcp, _)| 7 - pcp);
        let by_dscp = self.dscp.map(|(_, dscp)| if dscp == 46 { 7 } else { (dscp / 8 + 3) % 8 });
        match trust {
            "pcp" => by_pcp,
            "dscp" => by_dscp,
            "both" => by_dscp.or(by_pcp),
            _ => None,
        }
        .unwrap_or(5)
    }
}

fn number_and_class(bytes: &[u8]) -> Option<(u32, u8)> {
    let (pcp, _) = frames::tag_of(bytes)?;
    let number = match frames::ether_type(bytes) {
        frames::EXPERIMENTAL => bytes.get(18..22)?,
        frames::IPV4 => bytes.get(46..50)?,
        frames::IPV6 => bytes.get(58..62)?,
        _ => return None,
    };
    Some((u32::from_be_bytes([number[0], number[1], number[2], number[3]]), pcp))
}

fn received_classes(bed: &Bed, collector: usize) -> BTreeMap<u32, u8> {
    bed.host(collector).tap().all().iter().filter_map(|frame| number_and_class(&frame.bytes)).collect()
}

#[test] // proves: classification
fn ingress_port_classifies_each_frame_by_its_trust_setting() {
    const TRUST: [&str; 4] = ["pcp", "dscp", "both", "port"];
    let bed = bed(5).build();
    let mut config = bed.config("speed = \"1G\"\nuntagged = [1]");
    for (port, trust) in (1..).zip(TRUST) {
        config = config.port(port, &format!("trust = \"{trust}\"\n{MAPS}"));
    }
    config = config.port(5, "pvid = \"none\"\nuntagged = []\ntagged = [1]\nrewrite_pcp = \"class\"");
    let switch = bed.start(&config);
    let (kinds, to) = (Kind::all(), bed.host(5));
    for (port, trust) in (1..).zip(TRUST) {
        let mut expected = BTreeMap::new();
        let mut per_class = [0; 8];
        to.tap().clear();
        for (number, kind) in (0..).zip(&kinds) {
            bed.host(port).send(kind.frame(bed.host(port), to, number));
            expected.insert(number, kind.class(trust));
            per_class[usize::from(kind.class(trust))] += 1;
            if expected.len() % 256 == 0 {
                wait_for("a part of the frames", || {
                    (received_classes(&bed, 5).len() == expected.len()).then_some(())
                });
            }
        }
        let received = wait_for("all frames", || {
            Some(received_classes(&bed, 5)).filter(|received| received.len() == kinds.len())
        });
        for (number, kind) in (0..).zip(&kinds) {
            assert_eq!(received[&number], expected[&number], "{kind:?} at a port that trusts {trust}");
        }
        let counted: Vec<u64> = switch.port(port).classes.iter().map(|class| class.rx_frames).collect();
        assert_eq!(counted, per_class, "trust {trust}");
    }
    bed.finish(switch);
}
