use super::*;

const NOT_KEPT: Option<i32> = Some(1);

impl Fabric {
    fn drops_of_class_3(&self, port: usize, reason: &str) -> u64 {
        self.switch.class(port, 3).drops[reason]
    }
}

#[test] // proves: slow-path
fn switch_loses_no_lossless_frame_if_neighbours_are_flushed() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    let kernel = fabric.bed.far_namespace().clone();
    let (end, flushes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (ended, flushed) = (Arc::clone(&end), Arc::clone(&flushes));
    let flusher = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            ip(&kernel, "neigh flush dev p2");
            flushed.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(20));
        }
    });
    let resolve_punts = || fabric.switch.port(1).punts["resolve"].punted;
    let mut sent = 0;
    while sent < 4_000 || flushes.load(Ordering::Relaxed) < 20 || resolve_punts() < 5 {
        fabric.host(1).send_all((sent..sent + 500).map(|n| fabric.packet(1, [172, 16, 2, 2], n)), GAP);
        sent += 500;
    }
    end.store(true, Ordering::Relaxed);
    flusher.join().unwrap();
    let expected: Vec<u32> = (0..sent).collect();
    assert_eq!(numbers(fabric.host(2), sent as usize), expected, "each once, in order");
    let status = fabric.switch.status();
    assert_eq!((status.verdict.lossless_lost, fabric.drops(1, "unresolved")), (0, 0));
    assert_eq!(fabric.switch.class(1, 3).rx_frames, u64::from(sent));
    assert_eq!(
        fabric.switch.class(2, 3).tx_frames,
        u64::from(sent),
        "number of frames that the kernel forwarded"
    );
    fabric.finish();
}

#[test] // proves: slow-path
fn frames_to_neighbour_that_does_not_answer_count_as_lost() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    let (silent, answering) = ([172, 16, 2, 99], [172, 16, 2, 2]);
    for number in 0..200 {
        fabric.host(1).send(fabric.packet(1, silent, 1_000_000 + number));
        fabric.host(1).send(fabric.packet(1, answering, number));
    }
    assert_eq!(numbers(fabric.host(2), 200), (0..200).collect::<Vec<u32>>(), "those for others pass");
    wait_for("the wait to be over", || (fabric.drops_of_class_3(1, "unresolved") == 200).then_some(()));
    let verdict = fabric.switch.status().verdict;
    assert_eq!((verdict.lossless, verdict.lossless_lost), (false, 200));
    ip(fabric.host(2).namespace(), "address add 172.16.2.99/24 dev eth0");
    let mut number = 2_000_000;
    wait_for("a frame to arrive", || {
        number += 1;
        fabric.host(1).send(fabric.packet(1, silent, number));
        thread::sleep(Duration::from_millis(20));
        let has = |bytes: &[u8]| bytes.len() >= 46 && bytes[42..46] == number.to_be_bytes();
        (fabric.host(2).tap().count(has) == 1).then_some(())
    });
    let exit = fabric.switch.stop();
    assert_eq!(exit.status.code(), NOT_KEPT, "{}", exit.stderr);
}

#[test] // proves: verdict
fn lossless_frames_beyond_punt_limit_count_as_lost() {
    let fabric = Fabric::new(2, "[punt]\nrate = 200\nburst = 50\n");
    fabric.ping(1, "172.16.2.2");
    let flood = (0..2_000).map(|number| fabric.packet(1, [172, 16, 1, 1], number));
    fabric.host(1).send_all(flood, Duration::ZERO);
    wait_for("all of it", || (fabric.switch.class(1, 3).rx_frames == 2_000).then_some(()));
    let verdict = fabric.switch.status().verdict;
    let dropped = fabric.drops_of_class_3(1, "punt_limit");
    assert!(dropped > 1_000 && verdict.lossless_lost == dropped, "{dropped}: {verdict:?}");
    let exit = fabric.switch.stop();
    assert_eq!(exit.status.code(), NOT_KEPT, "{}", exit.stderr);
}

#[test] // proves: route-mirror
fn switch_forwards_to_fixed_neighbours_and_keeps_their_entries() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    ip(fabric.host(2).namespace(), "address add 172.16.2.63/24 dev eth0"); // the other stations answer no ARP
    let (station, group) = (fabric.host(2).mac().to_string(), "03:bf:ac:10:02:32".to_owned());
    let entries = [
        (50, &group, format!("lladdr {group} nud permanent"), "PERMANENT"),
        (61, &station, format!("lladdr {station} nud noarp extern_learn proto zebra"), "extern_learn NOARP"),
        (62, &station, format!("lladdr {station} nud stale extern_learn"), "extern_learn"),
        (63, &station, "nud none extern_learn".to_owned(), "extern_learn"),
    ];
    for (last, _, options, _) in &entries {
        fabric.ip(&format!("neigh replace 172.16.2.{last} dev p2 {options}"));
    }
    for (number, (last, ..)) in (0_u32..).zip(&entries) {
        fabric.host(1).send(fabric.packet(1, [172, 16, 2, *last], number));
    }
    let mut arrived = numbers(fabric.host(2), entries.len());
    arrived.sort_unstable();
    assert_eq!(arrived, [0, 1, 2, 3]);
    let verdict = fabric.switch.status().verdict;
    assert_eq!((verdict.lossless_lost, fabric.drops(1, "unresolved")), (0, 0));
    for (last, mac, _, expected) in entries {
        let entry = fabric.ip(&format!("neigh show nud all to 172.16.2.{last}"));
        assert!(entry.contains(mac) && entry.contains(expected), "{entry}, not {expected}");
    }
    fabric.finish();
}

#[test] // proves: routing
fn vlan_router_uses_changed_mac_address_of_its_interface() {
    let fabric = Fabric::with_vlan(2, Some(2), "[[vlan]]\nvid = 1\nrouter = true\n");
    fabric.ping(2, "172.16.1.2");
    fabric.ip("link set vlan1 address 00:00:5e:00:01:02");
    ip(fabric.host(2).namespace(), "neigh flush dev eth0");
    fabric.ping(2, "172.16.1.2");
    fabric.ping(1, "172.16.2.2");
    fabric.ping(2, "172.16.2.1");
    fabric.host(2).run("ping", &["-Q", "96", "-c", "3", "-i", "0.05", "-W", "5", "172.16.1.2"]);
    let neighbour = ip(fabric.host(2).namespace(), "neigh show to 172.16.2.1");
    assert!(neighbour.contains("00:00:5e:00:01:02"), "{neighbour}");
    fabric.finish();
}
