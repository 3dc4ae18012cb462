use std::time::Duration;

use tokio::time::{Instant, sleep};
use xoff_config::Config;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::PortId;

use super::super::view::SwitchView;

/// Maximum time to wait until the LACP partners of leaving ports stop sending.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Before the reload of `next`, makes ports leave LACP groups to which they will not belong, or which lose LACP. Waits
/// until their partners stop sending, and returns these ports.
pub(super) async fn leave(view: &SwitchView, running: &Config, next: &Config) -> Vec<PortId> {
    let leaving = leaving(&running.switch, &next.switch);
    if leaving.is_empty() {
        return leaving;
    }
    set(view, &leaving, true);
    let deadline = Instant::now() + LEAVE_WITHIN;
    let is_collecting = || {
        let ports = view.lacp.lock();
        leaving.iter().any(|port| ports[port.index()].is_collecting())
    };
    while is_collecting() && Instant::now() < deadline {
        sleep(LOOK_EVERY).await;
    }
    leaving
}

pub(super) fn stay(view: &SwitchView, leaving: &[PortId]) {
    set(view, leaving, false);
}

fn set(view: &SwitchView, members: &[PortId], leaves: bool) {
    let mut ports = view.lacp.lock();
    members.iter().for_each(|port| ports[port.index()].leaves = leaves);
    drop(ports);
    view.host_bell.wake();
}

fn leaving(running: &SwitchSettings, next: &SwitchSettings) -> Vec<PortId> {
    let stays = |name: &str, port: PortId| {
        let mut groups = next.groups.iter().filter(|group| group.lacp.is_some() && group.name == name);
        groups.any(|group| group.members.iter().any(|member| member.port == port))
    };
    let groups = running.groups.iter().filter(|group| group.lacp.is_some());
    let members = groups.flat_map(|group| group.members.iter().map(move |member| (&group.name, member.port)));
    members.filter(|(name, port)| !stays(name, *port)).map(|(_, port)| port).collect()
}
