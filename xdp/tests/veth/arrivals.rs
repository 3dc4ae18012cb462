use xoff_wire::header::Header;
use xoff_xdp::{Arrivals, Head};

use super::*;

#[test] // proves: kernel-drops
fn xdp_program_classifies_arrivals_as_dataplane_does() {
    let bench = Bench::new(&VethOptions::default(), |_| {});
    let before = bench.ports[0].monitor().arrivals().unwrap();
    let tags: [&[u8]; 5] = [
        &[],
        &[0x81, 0, 0x60, 1],
        &[0x81, 0, 0xe0, 0],
        &[0x22, 0xe9, 0, 7],
        &[0x81, 0, 0x20, 0, 0x22, 0xe9, 0, 7],
    ];
    let payloads: [&[u8]; 9] = [
        &[0x88, 0xb5, 0x45, 0xff],
        &[0x08, 0x00, 0x45, 26 << 2 | 3],
        &[0x08, 0x00, 0x4f, 63 << 2],
        &[0x08, 0x00, 0x44, 63 << 2],
        &[0x08, 0x00, 0x65, 63 << 2],
        &[0x86, 0xdd, 0x6a, 0x9f],
        &[0x86, 0xdd, 0x4a, 0x9f],
        &[0x88, 0xa8, 0x60, 1],
        &[0x88, 0x08, 1, 1],
    ];
    let mut expected = Vec::new();
    for (tag, payload) in tags.iter().flat_map(|tag| payloads.iter().map(move |payload| (tag, payload))) {
        let mut frame = frame(0, 0);
        frame.truncate(12);
        frame.extend([tag, payload].into_iter().copied().flatten());
        frame.resize(80, 0);
        let header = Header::parse(&frame).unwrap();
        let pcp = header.tag.map(|tag| tag.pcp().get());
        let is_control = header.ether_type.0 == 0x8808 && header.cn_tag.is_none();
        let head = if is_control { Head::Control } else { Head::Marks { dscp: header.dscp, pcp } };
        expected.push(head);
        bench.hosts[0].send(&frame);
    }
    expected.sort();
    let counted = |now: &Arrivals| now.since(&before).map(|(_, frames)| frames).sum::<u64>();
    let now = wait_for(|| {
        Some(bench.ports[0].monitor().arrivals().unwrap()).filter(|now| counted(now) >= expected.len() as u64)
    });
    let mut found: Vec<Head> = now
        .since(&before)
        .flat_map(|(head, frames)| std::iter::repeat_n(head, usize::try_from(frames).unwrap()))
        .collect();
    found.sort();
    assert_eq!(found, expected);
}

#[test] // proves: verdict
fn frames_at_queue_without_socket_count_as_lost() {
    let options = VethOptions { queues: 2, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |port| port.queues = Some(vec![0]));
    send_flows(&bench.hosts[0], 60);
    let mut received = Vec::new();
    wait_for_mut(|| {
        bench.ports[0].receive(&mut bench.store, 64, |_, frame| received.push(frame));
        received.len() as u64 + bench.ports[0].monitor().xdp_statistics().unwrap().rx_unclaimed
            == u64::from(FLOWS)
    });
    let lost = bench.ports[0].monitor().xdp_statistics().unwrap().lost();
    assert!(lost > 0 && !received.is_empty(), "{lost} of {FLOWS} lost");
    received.into_iter().for_each(|frame| bench.store.free(frame));
}
