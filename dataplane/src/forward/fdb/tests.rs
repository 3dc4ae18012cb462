use std::collections::HashMap;

use proptest::prelude::*;
use xoff_flow_control::settings::HashSeed;

use super::*;
use crate::testing::port_settings;
use xoff_explore::explore;

const P0: PortId = PortId(0);
const P1: PortId = PortId(1);
const AGEING: Nanos = Nanos::from_secs(300);
const T: Nanos = Nanos::from_secs(1000);

fn mac(n: u16) -> MacAddr {
    let [high, low] = n.to_be_bytes();
    MacAddr([2, 0, 0, 0, high, low])
}

fn settings(capacity: usize) -> FdbSettings {
    FdbSettings { capacity, ageing: Some(AGEING), statics: vec![], seed: HashSeed::PUBLIC }
}

fn fdb(capacity: usize, limits: [Option<usize>; 2]) -> Fdb {
    let ports =
        [0, 1].map(|port| PortSettings { learn_limit: limits[usize::from(port)], ..port_settings(port) });
    Fdb::new(&settings(capacity), &ports)
}

fn sweep_all(fdb: &mut Fdb, now: Nanos) {
    for _ in 0..fdb.table.places().div_ceil(fdb.sweep.places) {
        fdb.sweep.due = Nanos::ZERO;
        fdb.advance(now);
    }
}

#[test]
fn fdb_follows_station_that_moves_to_another_port() {
    let mut fdb = fdb(16, [None; 2]);
    assert_eq!(fdb.lookup(T, 1, mac(1)), None);
    assert_eq!(fdb.learn(T, 1, mac(1), P0), Learned::New);
    assert_eq!(fdb.learn(T, 1, mac(1), P0), Learned::Refreshed);
    assert_eq!(fdb.lookup(T, 1, mac(1)), Some(P0));
    assert_eq!(fdb.lookup(T, 2, mac(1)), None, "address found in another VLAN");
    assert_eq!(fdb.learn(T, 1, mac(1), P1), Learned::Moved { from: P0 });
    assert_eq!(fdb.lookup(T, 1, mac(1)), Some(P1));
    assert_eq!((fdb.learned_at(P0), fdb.learned_at(P1), fdb.len()), (0, 1, 1));
}

#[test]
fn fdb_entries_read_in_chunks_cover_whole_table() {
    let mut fdb = fdb(100, [None; 2]);
    (0..100).for_each(|n| assert_eq!(fdb.learn(T, 1, mac(n), P0), Learned::New));
    let (places, middle) = (fdb.places(), fdb.places() / 3);
    let parts = fdb.entries_at(T, 0..middle).chain(fdb.entries_at(T, middle..places));
    assert!(parts.eq(fdb.entries(T)));
    assert_eq!(fdb.entries(T).count(), 100);
}

#[test]
fn fdb_learns_no_group_or_zero_address() {
    let mut fdb = fdb(16, [None; 2]);
    for not_a_station in [MacAddr::BROADCAST, MacAddr([1, 0, 0, 0, 0, 1]), MacAddr([0; 6])] {
        assert_eq!(fdb.learn(T, 1, not_a_station, P0), Learned::Ignored);
    }
    assert!(fdb.is_empty());
}

#[test]
fn fdb_learns_nothing_at_port_with_learning_off() {
    let ports = [PortSettings { learning: false, ..port_settings(0) }, port_settings(1)];
    let mut fdb = Fdb::new(&settings(16), &ports);
    assert_eq!(fdb.learn(T, 1, mac(1), P1), Learned::New);
    assert_eq!(fdb.learn(T, 1, mac(1), P0), Learned::Ignored);
    assert_eq!(fdb.learn(T, 1, mac(2), P0), Learned::Ignored);
    assert_eq!((fdb.lookup(T, 1, mac(1)), fdb.lookup(T, 1, mac(2))), (Some(P1), None));
}

#[test]
fn port_learns_exactly_its_limit_of_addresses() {
    let mut fdb = fdb(16, [Some(3), None]);
    for n in 1..=3 {
        assert_eq!(fdb.learn(T, 1, mac(n), P0), Learned::New);
    }
    assert_eq!(fdb.learn(T, 1, mac(4), P0), Learned::RefusedByLimit);
    assert_eq!(fdb.learn(T, 1, mac(3), P0), Learned::Refreshed, "known address of a full port not refreshed");
    assert_eq!(
        fdb.learn(T, 1, mac(4), P1),
        Learned::New,
        "the address limit of one port was applied to another port"
    );
    assert_eq!(
        fdb.learn(T, 1, mac(4), P0),
        Learned::RefusedByLimit,
        "full port took over an address of another port"
    );
    assert_eq!(fdb.lookup(T, 1, mac(4)), Some(P1));
    assert_eq!(fdb.learn(T, 1, mac(1), P1), Learned::Moved { from: P0 });
    assert_eq!(
        fdb.learn(T, 1, mac(5), P0),
        Learned::New,
        "the place freed by a moved address was not reused"
    );
    assert_eq!((fdb.learned_at(P0), fdb.refused_at(P0), fdb.refused_at(P1)), (3, 2, 0));
    assert_eq!((fdb.moved_to(P0), fdb.moved_to(P1)), (0, 1));
}

#[test]
fn fdb_capacity_includes_static_addresses() {
    let statics = vec![(1, mac(100), P1)];
    let mut fdb = Fdb::new(&FdbSettings { statics, ..settings(4) }, &[port_settings(0), port_settings(1)]);
    for n in 1..=3 {
        assert_eq!(fdb.learn(T, 1, mac(n), P0), Learned::New);
    }
    assert_eq!(fdb.learn(T, 1, mac(4), P0), Learned::RefusedByCapacity);
    assert_eq!((fdb.len(), fdb.refused_at(P0)), (4, 1));
    sweep_all(&mut fdb, T + AGEING);
    assert_eq!(fdb.learn(T + AGEING, 1, mac(4), P0), Learned::New);
}

#[test]
fn address_expires_exactly_at_ageing_time() {
    let mut fdb = fdb(16, [Some(1), None]);
    fdb.learn(T, 1, mac(1), P0);
    let last = T + Nanos(AGEING.0 - 1);
    assert_eq!(fdb.lookup(last, 1, mac(1)), Some(P0));
    assert_eq!(fdb.lookup(T + AGEING, 1, mac(1)), None);
    assert_eq!(fdb.entries(last).count(), 1);
    assert_eq!(fdb.entries(T + AGEING).count(), 0);

    fdb.learn(last, 1, mac(1), P0);
    assert_eq!(fdb.lookup(T + AGEING, 1, mac(1)), Some(P0), "refreshed address aged too early");
    let mut late = fdb.clone();
    assert_eq!(late.learn(last + AGEING, 1, mac(1), P1), Learned::New, "aged address counted as moved");

    sweep_all(&mut fdb, last + Nanos(AGEING.0 - 1));
    assert_eq!(fdb.len(), 1);
    sweep_all(&mut fdb, last + AGEING);
    assert_eq!((fdb.len(), fdb.learned_at(P0)), (0, 0));
    assert_eq!(
        fdb.learn(last + AGEING, 1, mac(2), P0),
        Learned::New,
        "aged address still counts in the port's limit"
    );
}

#[test]
fn sweep_frees_aged_address_within_quarter_of_ageing_time() {
    for (capacity, ageing) in [(5000, AGEING), (1 << 18, Nanos::from_secs(1))] {
        let settings = FdbSettings { ageing: Some(ageing), ..settings(capacity) };
        let mut fdb = Fdb::new(&settings, &[port_settings(0)]);
        for n in 0..5000 {
            fdb.learn(T, 1, mac(n), P0);
        }
        let mut now = T;
        while fdb.next_deadline() <= T + ageing + Nanos(ageing.0 / 4) {
            assert!(fdb.next_deadline() >= now + SWEEP_PERIOD_MIN, "sweeps follow each other too quickly");
            now = fdb.next_deadline();
            let before = fdb.len();
            fdb.advance(now);
            assert!(before - fdb.len() <= fdb.sweep.places, "sweep freed more entries than it may check");
            assert!(now >= T + ageing || fdb.len() == 5000, "entry freed before its ageing time");
        }
        assert!(now > T + ageing);
        assert_eq!((fdb.len(), fdb.learned_at(P0)), (0, 0));
    }
}

#[test]
fn fdb_without_ageing_entries_schedules_no_sweep() {
    let mut ageless = Fdb::new(&FdbSettings { ageing: None, ..settings(16) }, &[port_settings(0)]);
    ageless.learn(T, 1, mac(1), P0);
    assert_eq!(ageless.next_deadline(), Nanos::NEVER);
    assert_eq!(ageless.lookup(Nanos(u64::MAX - 1), 1, mac(1)), Some(P0));

    let mut fdb = fdb(16, [None; 2]);
    assert_eq!(fdb.next_deadline(), Nanos::NEVER);
    fdb.learn(T, 1, mac(1), P0);
    assert!(fdb.next_deadline() > T && fdb.next_deadline() < T + AGEING);
    sweep_all(&mut fdb, T + AGEING);
    assert_eq!(fdb.next_deadline(), Nanos::NEVER);
}

#[test]
fn static_addresses_never_move_or_expire() {
    let statics = vec![(1, mac(1), P1)];
    let ports = [0, 1].map(|port| PortSettings { learn_limit: Some(0), ..port_settings(port) });
    let mut fdb = Fdb::new(&FdbSettings { statics, ..settings(16) }, &ports);
    assert_eq!(fdb.learn(T, 1, mac(1), P0), Learned::Static);
    assert_eq!(fdb.apply(&FdbUpdate { vid: 1, mac: mac(1), port: P0, last_active: T }), Learned::Static);
    fdb.flush(P1);
    sweep_all(&mut fdb, T + AGEING + AGEING);
    assert_eq!(fdb.lookup(T + AGEING + AGEING, 1, mac(1)), Some(P1));
    let entry = FdbEntry { vid: 1, mac: mac(1), port: P1, age: None };
    assert_eq!(fdb.entries(T).collect::<Vec<_>>(), [entry]);
}

#[test]
fn fdb_stores_all_static_addresses_despite_zero_capacity() {
    let statics: Vec<_> = (0..500).map(|n| (1, mac(n), P1)).collect();
    let fdb = Fdb::new(&FdbSettings { statics, ..settings(0) }, &[port_settings(0), port_settings(1)]);
    assert!((0..500).all(|n| fdb.lookup(T, 1, mac(n)) == Some(P1)));
}

fn attack(seed: HashSeed, victim: MacAddr, count: usize) -> Vec<MacAddr> {
    let fdb = Fdb::new(&FdbSettings { seed, ..settings(CROWD) }, &[]);
    let buckets = |mac| {
        let (a, b) = fdb.table.buckets_of(Key::new(1, mac));
        [a.min(b), a.max(b)]
    };
    let addresses = (1u32..).map(|n| {
        let [a, b, c, d] = n.to_be_bytes();
        MacAddr([6, 0, a, b, c, d])
    });
    addresses.filter(|&mac| buckets(mac) == buckets(victim)).take(count).collect()
}

const CROWD: usize = 256;

fn learned_after(attack: &[MacAddr], victim: MacAddr, seed: HashSeed) -> Learned {
    let ports = [PortSettings { learn_limit: Some(attack.len()), ..port_settings(0) }, port_settings(1)];
    let mut fdb = Fdb::new(&FdbSettings { seed, ..settings(CROWD) }, &ports);
    for &mac in attack {
        fdb.learn(T, 1, mac, P0);
    }
    fdb.learn(T, 1, victim, P1)
}

#[test] // proves: bridging
fn address_collision_attack_fails_for_other_hash_seeds() {
    let victim = mac(1);
    let revealed_seed = HashSeed([1, 2]);
    let attack = attack(revealed_seed, victim, 14);
    assert_eq!(
        learned_after(&attack, victim, revealed_seed),
        Learned::RefusedByCapacity,
        "attack with the known seed failed"
    );
    assert_eq!(
        learned_after(&attack[1..], victim, revealed_seed),
        Learned::New,
        "the table refused an address although its bucket has a free place"
    );
    for other in 0..64u64 {
        for seed in [HashSeed([1 ^ 1 << other, 2]), HashSeed([1, 2 ^ 1 << other])] {
            assert_eq!(
                learned_after(&attack, victim, seed),
                Learned::New,
                "attack succeeded for another seed: {:?}",
                seed.0
            );
        }
    }
}

#[test]
fn link_loss_removes_addresses_learned_on_that_port() {
    let mut fdb = fdb(16, [None; 2]);
    fdb.learn(T, 1, mac(1), P0);
    fdb.learn(T, 1, mac(2), P1);
    fdb.learn(T, 2, mac(3), P0);
    fdb.flush(P0);
    assert_eq!((fdb.lookup(T, 1, mac(1)), fdb.lookup(T, 2, mac(3))), (None, None));
    assert_eq!(fdb.lookup(T, 1, mac(2)), Some(P1));
    assert_eq!((fdb.learned_at(P0), fdb.learned_at(P1)), (0, 1));
}

#[test]
fn newest_address_update_wins_in_every_fdb_replica() {
    let update = |port, last_active| FdbUpdate { vid: 1, mac: mac(1), port, last_active };
    let mut fdb = fdb(16, [None, Some(0)]);
    fdb.learn(T, 1, mac(1), P0);
    assert_eq!(fdb.apply(&update(P1, Nanos(T.0 - 1))), Learned::Refreshed);
    assert_eq!(fdb.lookup(T, 1, mac(1)), Some(P0));
    let moved = fdb.apply(&update(P1, Nanos(T.0 + 1)));
    assert_eq!(moved, Learned::Moved { from: P0 }, "replica applied the limit of another worker's port");
    assert_eq!(fdb.lookup(T, 1, mac(1)), Some(P1));
}

#[test]
fn address_of_active_station_is_sent_to_replicas_periodically() {
    let mut fdb = fdb(16, [None; 2]);
    let mut last_update = T;
    fdb.learn(T, 1, mac(1), P0);
    for second in 1..=1000 {
        let now = T + Nanos::from_secs(second);
        let learned = fdb.learn(now, 1, mac(1), P0);
        if learned == Learned::Renewed {
            last_update = now;
        } else {
            assert_eq!(learned, Learned::Refreshed);
            assert!(now.since(last_update).0 < AGEING.0 / 4);
        }
    }
    assert!(last_update > T);
}

#[derive(Clone, Debug)]
enum FdbStep {
    Learn { vid: u16, n: u16, port: u8 },
    Wait(u64),
    Flush(u8),
}

fn step() -> impl Strategy<Value = FdbStep> {
    prop_oneof![
        8 => (1u16..=3, 0u16..40, 0u8..4).prop_map(|(vid, n, port)| FdbStep::Learn { vid, n, port }),
        2 => (1..AGEING.0 / 2).prop_map(FdbStep::Wait),
        1 => (0u8..4).prop_map(FdbStep::Flush),
    ]
}

explore! {
    #[test]
    fn fdb_lookups_equal_those_of_plain_map(steps in prop::collection::vec(step(), 1..200)) {
        let ports = [0, 1, 2, 3].map(port_settings);
        let mut fdb = Fdb::new(&settings(200), &ports);
        let mut replica = fdb.clone();
        let mut model = HashMap::<(u16, u16), (PortId, Nanos)>::new();
        let mut now = T;
        for step in steps {
            match step {
                FdbStep::Learn { vid, n, port } => {
                    let port = PortId(port);
                    if fdb.learn(now, vid, mac(n), port).is_update() {
                        replica.apply(&FdbUpdate { vid, mac: mac(n), port, last_active: now });
                    }
                    model.insert((vid, n), (port, now));
                }
                FdbStep::Wait(span) => {
                    now += Nanos(span);
                    fdb.advance(now);
                    replica.advance(now);
                }
                FdbStep::Flush(port) => {
                    fdb.flush(PortId(port));
                    replica.flush(PortId(port));
                    model.retain(|_, (at, _)| *at != PortId(port));
                }
            }
            for vid in 1..=3 {
                for n in 0..40 {
                    let current = model.get(&(vid, n)).filter(|(_, last)| now.since(*last) < AGEING);
                    prop_assert_eq!(fdb.lookup(now, vid, mac(n)), current.map(|(port, _)| *port));
                    // A replica may forget an address one update interval early, but must never return a wrong port.
                    let recent = current.is_some_and(|(_, last)| now.since(*last).0 < AGEING.0 * 3 / 4);
                    let found = replica.lookup(now, vid, mac(n));
                    prop_assert!(found == current.map(|(port, _)| *port) || found.is_none() && !recent);
                }
            }
            let learned: usize = (0..4).map(|port| fdb.learned_at(PortId(port))).sum();
            prop_assert_eq!(learned, fdb.len());
        }
    }

    #[test] // proves: bridging
    fn fdb_never_exceeds_port_limits_or_capacity(
        steps in prop::collection::vec(step(), 1..200), capacity in 0usize..20, limit in 0usize..8
    ) {
        let ports = [0, 1, 2, 3].map(|port| PortSettings { learn_limit: Some(limit), ..port_settings(port) });
        let mut fdb = Fdb::new(&settings(capacity), &ports);
        let mut now = T;
        for step in steps {
            match step {
                FdbStep::Learn { vid, n, port } => {
                    let at_limit = fdb.learned_at(PortId(port)) >= limit;
                    let learned = fdb.learn(now, vid, mac(n), PortId(port));
                    prop_assert_eq!(learned == Learned::RefusedByCapacity, {
                        let is_listed = fdb.entries(now).any(|e| (e.vid, e.mac) == (vid, mac(n)));
                        !is_listed && !at_limit
                    });
                }
                FdbStep::Wait(span) => {
                    now += Nanos(span);
                    fdb.advance(now);
                }
                FdbStep::Flush(port) => fdb.flush(PortId(port)),
            }
            prop_assert!(fdb.len() <= capacity);
            prop_assert!((0..4).all(|port| fdb.learned_at(PortId(port)) <= limit));
        }
    }
}
