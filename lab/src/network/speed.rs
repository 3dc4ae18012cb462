use std::sync::PoisonError;
use std::thread;

use xoff_config::quantity;
use xoff_wire::units::BitRate;

use super::NetworkView;
use super::links::Refusal;
use super::view::SwitchState;
use crate::config::{End, LinkRates};

impl NetworkView {
    /// Changes the rate of frames from the end `from` of a link, or from both ends; returns warnings.
    ///
    /// Speed and headroom of ports change in two steps, so that headroom always suffices. Before headroom shrinks, frames of the old
    /// rate leave the delay line.
    pub(super) fn change_speed(
        &self,
        number: usize,
        from: Option<usize>,
        rate: BitRate,
        name: &str,
    ) -> Result<Vec<String>, Refusal> {
        let _alone = self.changing_speed.lock().unwrap_or_else(PoisonError::into_inner);
        let link = &self.network.links[number];
        if rate > link.speed {
            let speed = quantity::rate(link.speed);
            return Err(Refusal::new(
                format!("the nodes of link {name} have memory for {speed} only, the speed in the lab's file"),
                "write the highest speed into the lab's file, and start the lab again",
            ));
        }
        let now = self.network.rates.of(number, link);
        let next = now.with(from, rate);
        if next == now {
            return Ok(Vec::new());
        }
        for end in (0..2).filter(|end| next.sending[*end] != now.sending[*end]) {
            let (End::Host { host, .. }, far) = (link.ends[end], self.end_status(link.ends[1 - end])) else {
                continue;
            };
            let host = &self.network.hosts[host].name;
            let help = match far.is_switch {
                true => format!(
                    "change only the rate of frames from the switch, by --from {}, or change the file and start the lab again",
                    far.node
                ),
                false => "change the speed in the lab's file, and start the lab again".into(),
            };
            return Err(Refusal::new(
                format!("the agent of host {host} keeps the speed with which it started"),
                help,
            ));
        }
        let between = now.between(next);
        let mut warnings = self.apply(number, between, now)?;
        if next.speed < between.speed {
            thread::sleep(self.wires[number].longest_delay());
        }
        warnings.extend(self.apply(number, next, between)?);
        warnings.dedup();
        Ok(warnings)
    }

    fn apply(&self, number: usize, rates: LinkRates, before: LinkRates) -> Result<Vec<String>, Refusal> {
        let network = &self.network;
        if rates == before {
            return Ok(Vec::new());
        }
        network.rates.set(number, rates);
        let of_end = |end: &End| match *end {
            End::Port { switch, .. } => Some(switch),
            End::Host { .. } => None,
        };
        let reload = |dry_run: bool| {
            let mut warnings = Vec::new();
            for switch in network.links[number].ends.iter().filter_map(of_end) {
                let name = &network.switches[switch].name;
                let SwitchState::Running(_, Some(reloads)) = self.switches().swap_remove(switch) else {
                    return Err(format!("{name} does not run, or the lab has no file to reload"));
                };
                let reloaded = reloads.wait(dry_run).map_err(|why| format!("switch {name}: {why}"))?;
                warnings.extend(reloaded.warnings);
            }
            Ok(warnings)
        };
        let refused = |why: String| {
            network.rates.set(number, before);
            let link = &network.links[number];
            let sent = |end: usize| {
                let node = self.end_status(link.ends[end]).node;
                format!("{} from {node}", quantity::rate(before.sending[end]))
            };
            Refusal::new(
                format!("{why}; the link's rates stay {} and {}", sent(0), sent(1)),
                "correct the lab's file, which `xoff lab link --speed` reads again",
            )
        };
        reload(true).map_err(refused)?;
        reload(false).map_err(|why| {
            let refusal = refused(why);
            let _ = reload(false); // restores the switches that accepted; the refusing one refuses again
            refusal
        })
    }
}
