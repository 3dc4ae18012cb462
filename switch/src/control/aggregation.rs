use std::sync::Arc;

use xoff_dataplane::forward::MemberState;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::lacp::{Lacpdu, is_marker, marker_response};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::mailbox::Request;
use super::view::{Link, SwitchView};
use crate::host_path::Host;
use crate::host_path::ends::{Outbox, Punted, SendCounts};
use crate::lacp::LacpPort;
use crate::lacp::aggregator::Aggregator;
use crate::lacp::member::{Member, Standing};

#[derive(Debug)]
pub struct Aggregators {
    view: Arc<SwitchView>,
    counts: Arc<SendCounts>,
    settings: Option<Arc<SwitchSettings>>,
    system: MacAddr,
    groups: Vec<Aggregator>,
    handled: Vec<Handled>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Handled {
    /// LACP state last sent to the workers; `None` if they may have another one.
    state: Option<MemberState>,
    has_joined: bool,
    link_losses: u64,
    unsent: u64,
}

impl Aggregators {
    #[must_use]
    pub fn new(view: Arc<SwitchView>, counts: Arc<SendCounts>) -> Aggregators {
        let system = view.ports().next().map_or(MacAddr::default(), |(_, port)| port.now().mac);
        let handled = vec![Handled::default(); view.ports.len()];
        Aggregators { view, counts, settings: None, system, groups: Vec::new(), handled }
    }

    fn configure(&mut self, now: Nanos, settings: Arc<SwitchSettings>, outbox: &mut Outbox) {
        let of_group = |group: Aggregator| {
            let name = group.name().to_owned();
            group.into_members().map(move |(port, member)| ((name.clone(), port), member))
        };
        let mut before: Vec<_> = self.groups.drain(..).flat_map(of_group).collect();
        for (group, lacp) in settings.groups.iter().filter_map(|group| Some((group, group.lacp?))) {
            let kept = |port| {
                let at = before.iter().position(|((name, id), _)| (name, *id) == (&group.name, port))?;
                Some(before.swap_remove(at).1)
            };
            self.groups.push(Aggregator::new(self.system, group, lacp, kept));
        }
        for ((group, port), member) in before {
            self.leave(now, port, &member, outbox);
            if std::mem::take(&mut self.handled[port.index()].has_joined) {
                log_left(&self.view, &group, port, &member, "removed");
            }
            self.view.lacp.lock()[port.index()] = LacpPort::default();
        }
        self.settings = Some(settings);
        // Send the LACP states of all ports again, because workers detach every member of a reconfigured
        // group.
        self.handled.iter_mut().for_each(|handled| handled.state = None);
    }

    fn leave(&self, now: Nanos, port: PortId, member: &Member, outbox: &mut Outbox) {
        if let Some(pdu) = member.last_frame() {
            outbox.tell(now, port, &pdu.frame(self.mac(port))); // without room, the partner times out
        }
    }

    fn mac(&self, port: PortId) -> MacAddr {
        self.view.ports[port.index()].now().mac
    }
}

/// Passes the link state to the group member. If the link was lost since the last call, passes the loss first, even if
/// the link is back: the workers have detached the member.
fn follow_link(view: &SwitchView, handled: &mut Handled, now: Nanos, port: PortId, member: &mut Member) {
    let at = &view.ports[port.index()];
    let losses = at.link.losses();
    if std::mem::replace(&mut handled.link_losses, losses) != losses {
        member.set_link(now, false);
        handled.state = None;
    }
    member.set_link(now, at.is_there() && at.link.get() == Link::Up);
}

fn set_state(view: &SwitchView, handled: &mut Handled, port: PortId, state: MemberState) {
    handled.state = Some(state);
    for worker in &view.workers {
        let _ = worker.mailbox.send(Request::Member { port, state }); // fails if the worker has ended
    }
}

fn log(view: &SwitchView, handled: &mut Handled, group: &str, port: PortId, member: &Member) {
    let has_joined = member.state() == MemberState::Distributing;
    if std::mem::replace(&mut handled.has_joined, has_joined) == has_joined {
        return;
    }
    if has_joined {
        let (port, partner) = (view.name_of(port), member.ends().1.system.1);
        tracing::info!(event = "lacp-joined", %port, group, %partner, "LACP: the member has joined its group");
    } else {
        log_left(view, group, port, member, member.standing().name());
    }
}

fn log_left(view: &SwitchView, group: &str, port: PortId, member: &Member, standing: &str) {
    let (port, partner) = (view.name_of(port), member.ends().1.system.1);
    tracing::warn!(event = "lacp-left", %port, group, %partner, standing, "LACP: the member has left its group and sends no data");
}

impl Host for Aggregators {
    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox) {
        let (port, at) = (punted.punt.port, punted.punt.at);
        if punted.punt.reason != PuntReason::Lacp {
            return;
        }
        if is_marker(punted.bytes) {
            if let Some(response) = marker_response(punted.bytes, self.mac(port)) {
                outbox.tell(at, port, &response); // without room, the partner repeats its marker
            }
            return;
        }
        let Some(member) = self.groups.iter_mut().find_map(|group| group.member(port)) else { return };
        let counts = &mut self.view.lacp.lock()[port.index()].counts;
        match Lacpdu::parse(punted.bytes) {
            Ok(pdu) => {
                counts.frames_in += 1;
                member.receive(at, &pdu);
            }
            Err(error) => counts.malformed[error.index()] += 1,
        }
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        let settings = self.view.settings();
        if self.settings.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &settings)) {
            self.configure(now, settings, outbox);
        }
        let Aggregators { view, counts, groups, handled, .. } = self;
        let mut next = Nanos::NEVER;
        for group in groups {
            for (port, member) in group.members() {
                let handled = &mut handled[port.index()];
                follow_link(view, handled, now, port, member);
                member.set_leaves(view.lacp.lock()[port.index()].leaves);
                let unsent = counts.unsent(port);
                if std::mem::replace(&mut handled.unsent, unsent) != unsent {
                    member.send_again();
                }
            }
            group.advance(now);
            let (name, is_idle) = (group.name().to_owned(), group.is_idle());
            for (port, member) in group.members() {
                let handled = &mut handled[port.index()];
                if handled.state != Some(member.state()) {
                    set_state(view, handled, port, member.state()); // before the frame that announces it
                }
                log(view, handled, &name, port, member);
                let mac = view.ports[port.index()].now().mac;
                let sent = member.frame_due(now).map(|pdu| outbox.tell(now, port, &pdu.frame(mac)));
                if sent == Some(false) {
                    member.send_again();
                }
                let at = &mut view.lacp.lock()[port.index()];
                at.idle_since = is_idle.then(|| at.idle_since.unwrap_or(now));
                at.note(member, sent == Some(true));
                let is_out = !is_idle && !matches!(at.standing, Standing::Down | Standing::Distributing);
                at.out_since = is_out.then(|| at.out_since.unwrap_or(now));
            }
            next = next.min(group.next_deadline());
        }
        next
    }

    fn stop(&mut self, now: Nanos, outbox: &mut Outbox) {
        for group in std::mem::take(&mut self.groups) {
            for (port, member) in group.into_members() {
                self.leave(now, port, &member, outbox);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_dataplane::punt::Punt;
    use xoff_dataplane::switch::WorkerId;
    use xoff_flow_control::settings::{GroupSettings, Lacp, Member, Spread};
    use xoff_wire::lacp::{End, LacpError, State};

    use super::*;
    use crate::bell::Bell;
    use crate::control::mailbox::Inbox;
    use crate::control::testing::{group_with_lacp, view};
    use crate::handoff::Bells;
    use crate::host_path::ends::{HostFrame, ends};

    const LEFT: PortId = PortId(0);

    fn member_states(inbox: &Inbox) -> Vec<(PortId, MemberState)> {
        let state = |request| match request {
            Request::Member { port, state } => (port, state),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| inbox.take()).map(state).collect()
    }

    #[test] // proves: lacp
    fn workers_get_every_state_and_link_loss_of_lacp_members() {
        let (view, inbox) = view();
        let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
        let counts = SendCounts::new(2);
        let (mut host, _workers) = ends(&bells, vec![WorkerId(0); 2].into(), 1, &bell, &counts);
        let mut settings = SwitchSettings::clone(&view.settings());
        settings.groups = vec![GroupSettings {
            name: "up".into(),
            members: vec![Member { port: LEFT, weight: 1 }],
            spread: Spread::Flow,
            uplinks: false,
            lacp: Some(Lacp { active: true, short_timeout: true }),
            salt: 0,
        }];
        view.configured.set(settings.clone());
        let mut lacp = Aggregators::new(Arc::clone(&view), counts);
        let mut next = Nanos::from_secs(1);
        let mut run = |lacp: &mut Aggregators, bytes: &[u8]| {
            let punt = Punt { at: next, port: LEFT, vid: 0, reason: PuntReason::Lacp };
            lacp.take(&Punted { punt, bytes }, &mut host.outbox);
            assert!(lacp.advance(next, &mut host.outbox) > next);
            next = next.after(Nanos::from_millis(2_100));
            let mut port = view.lacp.lock()[LEFT.index()].clone();
            port.partner = End::default();
            port
        };
        let partner = |of: &LacpPort| {
            let state = State(0b0011_1111);
            let actor = End { system: (1, MacAddr([9; 6])), key: 1, port: (1, 1), state };
            Lacpdu { actor, partner: of.actor }.frame(MacAddr([9; 6]))
        };
        let mut at = run(&mut lacp, &[]);
        assert_eq!(member_states(&inbox), [(LEFT, MemberState::Detached)]);
        let begin = at.idle_since;
        assert!(begin.is_some(), "a group without an LACP partner must be reported as idle");
        run(&mut lacp, &[]);
        assert_eq!(run(&mut lacp, &[]).idle_since, begin);
        (0..3).for_each(|_| at = run(&mut lacp, &partner(&at)));
        assert_eq!(member_states(&inbox).last(), Some(&(LEFT, MemberState::Distributing)));
        assert_eq!(run(&mut lacp, &partner(&at)).idle_since, None);
        assert_eq!(member_states(&inbox), []);

        view.configured.set(settings.clone());
        run(&mut lacp, &partner(&at));
        assert_eq!(
            member_states(&inbox),
            [(LEFT, MemberState::Distributing)],
            "the LACP state must be sent to workers again after a reload"
        );

        for link in [Link::Down, Link::Up] {
            assert!(view.ports[0].link.set(link));
        }
        at = run(&mut lacp, &partner(&at)[..60]);
        assert_eq!(
            member_states(&inbox),
            [(LEFT, MemberState::Detached)],
            "workers must learn of a link loss, even if the link is back"
        );
        assert!(at.idle_since > begin, "the group's idle time must begin anew after a link loss");
        // Malformed: the truncated frame, and two empty ones after the group was formed.
        assert_eq!(at.counts.malformed[LacpError::Truncated.index()], 3);
        (0..3).for_each(|_| at = run(&mut lacp, &partner(&at)));
        assert_eq!(member_states(&inbox).last(), Some(&(LEFT, MemberState::Distributing)));

        settings.groups.clear();
        view.configured.set(settings);
        at = run(&mut lacp, &[]);
        assert_eq!((at.counts.frames_in, member_states(&inbox)), (0, vec![]));
        assert!(!lacp.handled[LEFT.index()].has_joined, "a removed LACP member must not count as joined");
    }

    #[test] // proves: lacp
    fn time_without_data_of_lacp_member_is_not_restarted() {
        const RIGHT: PortId = PortId(1);
        let (view, _inbox) = view();
        let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
        let counts = SendCounts::new(2);
        let (mut host, _workers) = ends(&bells, vec![WorkerId(0); 2].into(), 1, &bell, &counts);
        let mut settings = SwitchSettings::clone(&view.settings());
        let mut group = group_with_lacp();
        group.members.push(Member { port: RIGHT, weight: 1 });
        settings.groups = vec![group];
        view.configured.set(settings);
        let mut lacp = Aggregators::new(Arc::clone(&view), counts);
        let mut out_since = Vec::new();
        for second in 1..9 {
            let now = Nanos::from_secs(second);
            for (port, state) in [(LEFT, 0b0011_1111), (RIGHT, 0b0011_1011)] {
                let number = u16::from(port.0) + 1;
                let actor =
                    End { system: (1, MacAddr([9; 6])), key: 1, port: (1, number), state: State(state) };
                let partner = view.lacp.lock()[port.index()].actor;
                let bytes = &Lacpdu { actor, partner }.frame(MacAddr([9; 6]));
                let punt = Punt { at: now, port, vid: 0, reason: PuntReason::Lacp };
                lacp.take(&Punted { punt, bytes }, &mut host.outbox);
            }
            lacp.advance(now, &mut host.outbox);
            let ports = view.lacp.lock();
            assert_eq!(ports[LEFT.index()].out_since, None);
            if ports[LEFT.index()].standing == Standing::Distributing {
                assert_eq!(ports[RIGHT.index()].standing, Standing::Individual);
                out_since.push((now, ports[RIGHT.index()].out_since));
            }
        }
        assert!(
            out_since.len() > 1 && out_since.iter().all(|(_, it)| *it == Some(out_since[0].0)),
            "{out_since:?}"
        );
    }

    #[test] // proves: lacp
    fn lacp_marker_is_answered_at_its_port() {
        let (view, _inbox) = view();
        let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
        let counts = SendCounts::new(2);
        let (mut host, mut workers) = ends(&bells, vec![WorkerId(0); 2].into(), 1, &bell, &counts);
        let mut lacp = Aggregators::new(Arc::clone(&view), counts);
        let mut marker = Lacpdu { actor: End::default(), partner: End::default() }.frame(MacAddr([9; 6]));
        marker[14..18].copy_from_slice(&[2, 1, 1, 16]);
        let punt = Punt { at: Nanos(1), port: LEFT, vid: 0, reason: PuntReason::Lacp };
        lacp.take(&Punted { punt, bytes: &marker }, &mut host.outbox);
        let response = marker_response(&marker, view.ports[0].now().mac).unwrap();
        assert_eq!(workers[0].1.next_frame(), Some(HostFrame::ToPeer(LEFT, &response)));
    }
}
