//! The fabric in time: events are taken one after the other, and what follows from each at once is done before the next.

use std::hint::black_box;

use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{Bytes, MacAddr};

use crate::calendar::{BUCKETS, Calendar};
use crate::ends::{End, Line, NodeId};
use crate::event::{Event, NUMBERS_MAX};
use crate::host::{Flow, Host, address};
use crate::link::{Link, Links};
use crate::plan::Plan;
use crate::pool::Pool;
use crate::seed::{Purpose, Seed};
use crate::switch_node::{SlotCounts, SwitchNode};
use crate::time::{Pace, Picos};
use crate::trace::Trace;

/// A frame of the usual longest length, without FCS.
const FRAME_LONG: u32 = 1514;

/// The last moment there is: what is due at [`Picos::NEVER`] never happens.
const END: Picos = Picos(Picos::NEVER.0 - 1);

/// Events in a bucket of the calendar.
const EVENTS_WANTED: u64 = 16;

/// Switches, hosts and links, and the time.
#[derive(Debug)]
pub struct Fabric {
    links: Links,
    pool: Pool,
    switches: Vec<SwitchNode>,
    /// Their nodes follow those of switches.
    hosts: Vec<Host>,
    /// By link, the end that sends.
    senders: Vec<End>,
    tally: Tally,
    trace: Trace,
}

/// How much has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events.
    pub events: u64,
    /// Frames that have come to the end of a link, control frames included.
    pub hops: u64,
}

impl Fabric {
    /// As planned; what switches hash with comes from `seed`.
    ///
    /// # Panics
    /// If a port of the plan has no link, or two.
    #[must_use]
    pub fn new(plan: &Plan, seed: Seed) -> Fabric {
        let directions = plan.directions();
        let count = u32::try_from(directions.len()).expect("links are counted in 32 bits");
        assert!(count < NUMBERS_MAX, "{count} links");
        let senders: Vec<End> = directions.iter().map(|(from, ..)| *from).collect();
        let mut first_links = FirstLinks(0);
        let mut slots_all = 0;
        let make = |(id, (mut settings, slots)): (NodeId, (SwitchSettings, SlotCounts))| {
            settings.fdb.seed = seed.words(id, Purpose::Hash);
            slots_all += slots.data as usize;
            SwitchNode::new(id, first_links.next(settings.ports.len()), &settings, slots)
        };
        let switches: Vec<SwitchNode> = (0..).map(NodeId).zip(plan.settings()).map(make).collect();
        let hosts = (plan.switches()..).map(NodeId).zip(directions.iter().skip(first_links.0 as usize));
        let hosts: Vec<Host> =
            hosts.map(|(id, (_, _, line))| Host::new(id, first_links.next(1), *line)).collect();
        let calendar = Calendar::new(bucket_log2(&directions));
        let links = directions.into_iter().map(|(_, to, line)| Link::new(to, line)).collect();
        Fabric {
            links: Links::new(links, calendar),
            pool: Pool::with_capacity(slots_all + senders.len()),
            switches,
            hosts,
            senders,
            tally: Tally::default(),
            trace: Trace::default(),
        }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.links.now
    }

    /// How much has happened.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One number for all that has happened.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }

    /// The switches, in the order of the plan.
    #[must_use]
    pub fn switches(&self) -> &[SwitchNode] {
        &self.switches
    }

    /// The hosts, in the order of the plan.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The address of a host.
    #[must_use]
    pub fn address(host: u32) -> MacAddr {
        address(host)
    }

    /// Host number `host` begins to send.
    ///
    /// # Panics
    /// If there is no such host, or it has not sent all of another flow yet.
    pub fn begin(&mut self, host: u32, flow: &Flow) {
        self.hosts[host as usize].begin(host, flow, &mut self.links);
    }

    /// Lets everything happen that is due by `end`, and makes it that time, unless that is over already.
    pub fn run_until(&mut self, end: Picos) {
        let end = end.min(END);
        self.happen_until(end);
        self.links.now = self.links.now.max(end);
    }

    /// Lets everything happen until nothing moves any more. Where frames wait for each other for good, it does not end: pauses are
    /// refreshed.
    pub fn run_to_rest(&mut self) {
        self.happen_until(END);
    }

    fn happen_until(&mut self, end: Picos) {
        loop {
            if self.links.calendar.is_through() {
                self.links.calendar.turn_on();
                self.look_ahead();
            }
            let Some((now, subject)) = self.links.calendar.take_until(end) else { break };
            self.links.now = now;
            self.tally.events += 1;
            self.trace.note(now, subject);
            self.happen(Event::of(subject));
        }
    }

    /// Reads the heads of frames that come in during the bucket, so that all of them come out of memory at once, and not one after the
    /// other. Nothing depends on what is read.
    #[inline(never)]
    fn look_ahead(&self) {
        let sum = self.links.calendar.current().fold(0, |sum: u64, subject| match Event::of(subject) {
            Event::Arrived(link) => {
                let first = self.links.first(link);
                sum.wrapping_add(first.map_or(0, |packet| self.pool.look_ahead(packet)))
            }
            Event::Left(_) | Event::Due(_) => sum,
        });
        black_box(sum);
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        let Fabric { links, pool, switches, hosts, senders, tally, trace, .. } = self;
        let count = switches.len();
        match event {
            Event::Left(link) => {
                let End { node, port } = senders[link.0 as usize];
                match switches.get_mut(node.index()) {
                    Some(switch) => switch.left(port, pool, links),
                    None => hosts[node.index() - count].left(pool, links),
                }
            }
            Event::Arrived(link) => {
                let Some((End { node, port }, packet, len)) = links.arrived(link) else { return };
                tally.hops += 1;
                trace.note_frame(len);
                match switches.get_mut(node.index()) {
                    Some(switch) => switch.arrived(port, packet, len, pool, links),
                    None => hosts[node.index() - count].arrived(packet, len, pool, links),
                }
            }
            Event::Due(node) => match switches.get_mut(node.index()) {
                Some(switch) => switch.due(pool, links),
                None => hosts[node.index() - count].due(pool, links),
            },
        }
    }

    /// Frames in the pool that are in no switch and on no link, or the other way round: zero unless there is a bug.
    #[must_use]
    pub fn missing(&self) -> i128 {
        let held: u64 = self.switches.iter().map(SwitchNode::frames).sum();
        let sending: usize = self.switches.iter().map(SwitchNode::sending).sum();
        let outside = self.links.in_flight() as i128 - sending as i128;
        self.pool.in_use() as i128 - i128::from(held) - outside
    }
}

/// Links of nodes in their order, and of each of its ports.
struct FirstLinks(u32);

impl FirstLinks {
    fn next(&mut self, ports: usize) -> u32 {
        let first = self.0;
        self.0 += u32::try_from(ports).expect("few ports");
        first
    }
}

/// How wide a bucket of the calendar is to be, as a power of two: a long frame's time and the delay of a usual link are within a turn
/// of its wheel, and so many events are in a bucket that it pays to look ahead.
fn bucket_log2(directions: &[(End, End, Line)]) -> u32 {
    let frame = |line: &Line| Pace::of(line.rate).time_of(Bytes::on_line(FRAME_LONG));
    let ahead = directions.iter().map(|(.., line)| frame(line).after(line.delay).0).max().unwrap_or(1);
    // A direction that is busy has two events in the time of a frame.
    let frame_shortest = directions.iter().map(|(.., line)| frame(line).0).min().unwrap_or(1);
    let wanted = frame_shortest * EVENTS_WANTED / (2 * directions.len().max(1) as u64);
    (ahead / BUCKETS as u64).max(wanted).max(1).ilog2() + 1
}
