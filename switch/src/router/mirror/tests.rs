use super::super::tables::table;
use super::*;

#[derive(Default)]
struct Slow(Duration);

impl Publish for &mut Slow {
    fn publish(&mut self, _: Built) {
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(50));
        self.0 = begin.elapsed();
    }

    fn resynced(&self) {}
}

#[test]
fn slow_workers_do_not_delay_the_next_table_of_routes() {
    let (mut mirror, _) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    mirror.state.to_read = ReadScope::Nothing;
    let (mut slow, begin) = (Slow::default(), Instant::now());
    mirror.state.publish(&mut mirror.kernel, &mut &mut slow);
    let end = Instant::now();
    let made = (end - begin).saturating_sub(slow.0);
    assert!(
        mirror.state.not_before <= end + made * (SHARE - 1),
        "next table waits longer than seven times the time to build a table"
    );
}

#[test] // proves: route-mirror
fn mirror_rereads_all_routes_after_ambiguous_route_removal() {
    let (Mirror { mut state, .. }, _) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    let key = (table::MAIN, ("10.9.0.0".parse().unwrap(), 16), 0);
    let (kind, other) = (RouteKind::Blackhole, RouteKind::Refused);
    assert_eq!(
        state.remove_route(&key, &kind),
        ReadScope::Nothing,
        "removal of an unknown route causes a reading"
    );
    state.tables.add_route(key, kind.clone());
    assert_eq!(
        state.remove_route(&key, &other),
        ReadScope::Routes,
        "removal of another route with the same key causes no reading"
    );
    state.tables.add_route(key, other);
    assert_eq!(
        state.remove_route(&key, &kind),
        ReadScope::Routes,
        "removal before an appended route causes no reading"
    );
    assert!(state.tables.route(&key).is_some(), "route vanished before routes were read");
    state.tables.take_routes(Tables::default());
    state.tables.add_route(key, kind.clone());
    assert_eq!(state.remove_route(&key, &kind), ReadScope::Nothing);
    assert!(state.tables.route(&key).is_none());
}

#[test]
fn route_with_unknown_nexthop_object_makes_mirror_read_routes() {
    let (Mirror { mut state, .. }, _) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    let key = (table::MAIN, ("10.9.0.0".parse().unwrap(), 16), 0);
    assert_eq!(state.put_route(key, RouteKind::Unicast(vec![]), false), ReadScope::Routes);
    assert!(state.tables.route(&key).is_none());
}

struct Nobody;

impl Publish for Nobody {
    fn publish(&mut self, _: Built) {}

    fn resynced(&self) {}
}

#[test] // proves: cascade
fn routes_are_reported_in_use_only_after_workers_have_them() {
    let (mirror, handle) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    let (answer, page) = oneshot::channel();
    handle.requests.send(MirrorRequest::Page { from: 0, limit: 1, answer }).unwrap();
    let follower = std::thread::spawn(move || mirror.follow(Nobody));
    assert!(!page.blocking_recv().unwrap().is_in_use);
    handle.end();
    follower.join().unwrap().unwrap();
}
