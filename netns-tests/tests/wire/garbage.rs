use std::time::Duration;

use fastrand::Rng;
use xoff_netns_tests::{Host, Traffic, stream, unstalled};

use crate::{PATIENT, bed};

const FRAMES: usize = 6_000;

fn garbage(rng: &mut Rng, hosts: &[&Host]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..rng.usize(15..=1514)).map(|_| rng.u8(..)).collect();
    if rng.bool() {
        bytes.truncate(rng.usize(15..=80)); // cut off within a header
    }
    let dst = match rng.u8(..6) {
        0 => [0xff; 6],
        1 => [0x01, 0x80, 0xc2, 0, 0, rng.u8(..16)],
        2 => [0x33, 0x33, 0, 0, 0, rng.u8(..)],
        3 | 4 => rng.choice(hosts).unwrap().mac().0,
        _ => [0; 6],
    };
    if rng.u8(..8) > 0 {
        bytes[..6].copy_from_slice(&dst);
    }
    let ether_type = *rng.choice(&[0x8808_u16, 0x8100, 0x88a8, 0x0800, 0x86dd, 0x88cc, 0x22e9, 46]).unwrap();
    if rng.u8(..8) > 0 {
        bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
    }
    let nested = [0x8100_u16, 0x0800, 0x86dd, 0x8808, 0x0101, 0x0001];
    if bytes.len() > 18 && rng.bool() {
        bytes[14..16].copy_from_slice(&rng.choice(&nested).unwrap().to_be_bytes());
        bytes[16..18].copy_from_slice(&rng.choice(&nested).unwrap().to_be_bytes());
    }
    if [hosts[0].mac().0, hosts[1].mac().0].iter().any(|mac| bytes[6..12] == *mac) {
        bytes[6] ^= 4; // a stolen address would rightly move a station
    }
    bytes
}

#[test]
fn random_frames_do_not_disturb_other_traffic() {
    unstalled(|| {
        let bed = bed(3).build();
        let config = bed.config("speed = \"200M\"\nlossless = [3, 4]").switch(PATIENT);
        let switch = bed.start(&config);
        let (a, b, noise) = (bed.host(1), bed.host(2), bed.host(3));
        let traffic = Traffic::at_mbps(200)
            .source(a, &[stream(b, 3, "40M", 4_000)])
            .source(b, &[stream(a, 4, "40M", 4_000)])
            .start();
        for seed in xoff_explore::seeds([0x0ff]) {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..FRAMES / 20 {
                (0..10).for_each(|_| noise.send(garbage(&mut rng, &[a, b])));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        traffic.finish().assert_lossless(&[3, 4]);
        let status = bed.finish(switch);
        let port = &status.ports[2];
        let bad: u64 = port.malformed_control.values().sum();
        assert!(bad > 0 && port.reserved_frames > 0, "too few random frames were invalid: {port:?}");
        let data: u64 = port.classes.iter().map(|class| class.rx_frames).sum();
        let control = bad + port.pfc_frames_received + port.pause_frames_received + port.reserved_frames;
        assert_eq!(data + control, FRAMES as u64, "random frames sent, and frames counted");
    });
}
