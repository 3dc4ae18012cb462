// Tests for SPECIFICATION.md: workers

use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;
use crate::bell::Bell;
use crate::control::mailbox::{Mailbox, Request};
use crate::handoff::tests::{NOW, Node, receive, two_workers};
use crate::handoff::{Bells, CAPACITY};
use crate::host_path::ends::{SendCounts, WorkerEnd, ends};

fn host_end() -> WorkerEnd {
    let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
    let (_, mut sides) = ends(&bells, Box::default(), 1, &bell, &SendCounts::new(0));
    sides.remove(0).1
}

fn worker() -> (Worker, Node, Mailbox) {
    let (node, other) = two_workers("");
    let (mailbox, inbox) = Mailbox::new().unwrap();
    let worker = Worker {
        switch: node.switch,
        store: node.store,
        ports: Vec::new(),
        connections: Connections::new(node.handoff, host_end(), inbox, Arc::default(), Nanos::NEVER),
        poll: Poll::Busy,
        stall_budget: Nanos::ZERO,
        recorder: None,
    };
    (worker, other, mailbox)
}

#[test]
fn handled_wakeup_does_not_wake_the_worker_again() {
    let (worker, _other, mailbox) = worker();
    let wakers = worker.wakers().unwrap();
    let mut sleeper = Sleeper::new(&wakers);
    let mut sleep = || worker.sleep(&mut sleeper, &SpinWindow::new(Nanos::ZERO), Nanos::NEVER).unwrap();
    let is_readable = |fd| {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() == 1
    };
    let Connections { handoff, inbox, .. } = &worker.connections;
    let woken_by = || (is_readable(handoff.bell().event().as_fd()), is_readable(inbox.fd()));
    handoff.bell().wake();
    assert_eq!(woken_by(), (true, false));
    assert!(sleep().is_some());
    assert_eq!(woken_by(), (false, false));
    mailbox.send(Request::Link { port: PortId(0), up: true }).unwrap();
    assert_eq!(woken_by(), (false, true));
    assert!(sleep().is_some());
    assert_eq!(woken_by(), (false, false));
}

#[test]
fn worker_sleeps_briefly_while_queue_to_other_worker_is_full() {
    let (mut worker, _other, _mailbox) = worker();
    let mut sleeps_with = |frames: usize| {
        for _ in 0..frames {
            receive(&mut worker.switch, &mut worker.store, [0, 2, 1], 60);
        }
        worker.turn(&mut Direct, NOW, NOW);
        worker.driver_backlog()
    };
    let all = [sleeps_with(CAPACITY / 2), sleeps_with(CAPACITY / 2)]; // the outbox's limit
    assert_eq!(all, [DriverBacklog::Nothing; 2], "worker waits although the queue has room");
    assert_eq!(sleeps_with(1), DriverBacklog::Room);
}

#[test]
fn frames_handed_over_by_other_workers_count_as_received() {
    let (mut worker, mut other, _mailbox) = worker();
    let mut came = |frames: usize| {
        for _ in 0..frames {
            receive(&mut other.switch, &mut other.store, [1, 1, 2], 60);
        }
        other.handoff.exchange(NOW, &mut other.switch, &mut other.store);
        worker.turn(&mut Direct, NOW, NOW).received
    };
    assert_eq!([came(0), came(3), came(1)], [0, 3, 1]);
}

#[test]
fn frames_in_driver_shorten_sleep_if_worker_waits_for_them() {
    assert_eq!(
        DriverBacklog::of(false, true, false),
        DriverBacklog::Nothing,
        "worker waits although no frame is in flight"
    );
    assert_eq!(DriverBacklog::of(true, false, false), DriverBacklog::Leaving);
    assert_eq!(DriverBacklog::of(true, true, false), DriverBacklog::Room);
    assert_eq!(
        [false, true].map(|in_flight| DriverBacklog::of(in_flight, false, true)),
        [DriverBacklog::Room; 2]
    );
}

#[test]
fn maximum_sleep_of_worker_depends_on_driver_backlog() {
    let of = |driver_backlog: DriverBacklog, commit_us| {
        driver_backlog.longest_sleep(Nanos::from_micros(commit_us))
    };
    assert_eq!(of(DriverBacklog::Nothing, 40), LONGEST_SLEEP);
    assert_eq!(of(DriverBacklog::Leaving, 40), LOOK_AT_LEISURE);
    assert_eq!(
        [40, 200, 400].map(|us| of(DriverBacklog::Room, us)),
        [Nanos::from_micros(40), LOOK_AGAIN, LOOK_AGAIN]
    );
}

#[test]
fn maximum_sleep_after_traffic_is_quarter_of_stall_budget() {
    let budget = Nanos(400);
    assert_eq!(
        [0, 99, 100, 101, 5_000].map(|quiet| watchful_sleep(Nanos(quiet), budget).0),
        [100, 100, 100, 101, 5_000]
    );
}

#[test]
fn worker_sleep_counts_neither_as_stall_nor_as_reaction_time() {
    let (facts, budget) = (WorkerFacts::default(), Nanos(50));
    let mut watch = TurnTimer::new(Nanos(0));
    watch.turn(Nanos(10), budget, &facts);
    watch.turn(Nanos(60), budget, &facts);
    assert_eq!((watch.previous, facts.stalls.get()), (Nanos(10), 0));
    watch.woken(Nanos(1_000));
    watch.turn(Nanos(1_050), budget, &facts);
    assert_eq!((watch.previous, facts.stalls.get()), (Nanos(1_000), 0), "sleep counts as a stall");
    watch.turn(Nanos(1_101), budget, &facts);
    assert_eq!((facts.stalls.get(), facts.longest_gap.get()), (1, 51));
}
