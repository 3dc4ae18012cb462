//! Mirror's reactions to notifications.

use super::super::tables::table;
use super::*;

/// Receiver that takes 50 ms for a table, and stores the time it took.
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
fn who_is_slow_to_take_a_table_does_not_put_off_the_next() {
    let (mut mirror, _) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    mirror.known.lacks = Lacks::Nothing;
    let (mut slow, begin) = (Slow::default(), Instant::now());
    mirror.known.publish(&mut mirror.kernel, &mut &mut slow);
    let end = Instant::now();
    let made = (end - begin).saturating_sub(slow.0);
    assert!(mirror.known.not_before <= end + made * (SHARE - 1), "seven times as long as it was made");
}

// proves: route-mirror
#[test]
fn a_route_that_goes_is_gone_where_it_alone_was_there_and_else_all_are_read_again() {
    let (Mirror { mut known, .. }, _) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    let key = (table::MAIN, ("10.9.0.0".parse().unwrap(), 16), 0);
    let (kind, other) = (Kind::Blackhole, Kind::Refused);
    assert_eq!(known.remove_route(&key, &kind), Lacks::Nothing, "which nobody knew");
    known.tables.add_route(key, kind.clone());
    assert_eq!(known.remove_route(&key, &other), Lacks::Routes, "of which it is not said that it counts");
    known.tables.add_route(key, other);
    assert_eq!(known.remove_route(&key, &kind), Lacks::Routes, "before one that was appended");
    assert!(known.tables.route(&key).is_some(), "it counts until they are read");
    known.tables.take_routes(Tables::default());
    known.tables.add_route(key, kind.clone());
    assert_eq!(known.remove_route(&key, &kind), Lacks::Nothing);
    assert!(known.tables.route(&key).is_none());
}

struct Nobody;

impl Publish for Nobody {
    fn publish(&mut self, _: Built) {}

    fn resynced(&self) {}
}

// proves: cascade
#[test]
fn before_the_workers_have_a_table_none_is_in_use() {
    let (mirror, asker) = Mirror::open(Configured::new(), Spread::Flow).unwrap();
    let (answer, page) = oneshot::channel();
    asker.wishes.send(Wish::Page { from: 0, limit: 1, answer }).unwrap();
    let follower = std::thread::spawn(move || mirror.follow(Nobody));
    assert!(!page.blocking_recv().unwrap().is_in_use);
    asker.end();
    follower.join().unwrap().unwrap();
}
