//! What the hosts of a scenario are like.

use miette::miette;
use xoff_config::quantity;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::Obedience;
use xoff_sim::flows::{
    Control, DcqcnSettings, FlowFabric, HostSettings, RoceSettings, SlowReceiver, SwiftSettings,
    TimelySettings, Transport,
};
use xoff_sim::{At, Line, NodeId, Picos, Plan, Purpose, Seed};
use xoff_wire::units::{Class, ClassSet};

use super::picos;
use crate::scenario::{self, Scenario};

/// Classes that somebody uses: those of them that are lossy get room.
pub(super) fn lossy_classes(scenario: &Scenario) -> ClassSet {
    let answers = scenario.hosts.ack_class;
    let notices = (scenario.hosts.control == scenario::Control::Dcqcn)
        .then(|| scenario.hosts.dcqcn.cnp_class.unwrap_or(DcqcnSettings::default().cnp_class));
    // Notifications of switches have no tag, and pass others in the class of such frames.
    let told = (scenario.hosts.control == scenario::Control::Qcn).then_some(Class::ALL[0]);
    scenario.loads.iter().map(|load| load.class).chain(answers).chain(notices).chain(told).collect()
}

/// All of them are alike.
pub(super) fn settings(scenario: &Scenario, seed: Seed) -> HostSettings {
    let hosts = &scenario.hosts;
    let default = HostSettings::default();
    let roce = || {
        let default = RoceSettings::default();
        Transport::Roce(RoceSettings {
            window: hosts.window,
            ack_every: hosts.ack_every.unwrap_or(default.ack_every),
            ack_class: hosts.ack_class,
            timeout: hosts.timeout.map_or(default.timeout, picos),
            control: control(hosts),
        })
    };
    HostSettings {
        transport: match hosts.transport {
            scenario::Transport::LineRate => Transport::LineRate,
            scenario::Transport::Roce => roce(),
        },
        payload_max: hosts.payload.unwrap_or(default.payload_max),
        obedience: match hosts.pauses {
            scenario::Obeys::AtOnce => Obedience::Obey,
            scenario::Obeys::After(time) => Obedience::Late(time),
            scenario::Obeys::Never => Obedience::Ignore,
        },
        obeys_flows: hosts.ofc,
        obeys_rates: hosts.gfc,
        qcn: (hosts.control == scenario::Control::Qcn).then(|| reaction(&hosts.qcn, seed)),
    }
}

/// Some are slow to take what comes.
///
/// # Errors
/// Hosts that there are not, or that would be faster than their lines.
pub(super) fn slow_down(fabric: &mut FlowFabric, scenario: &Scenario, plan: &Plan) -> miette::Result<()> {
    let count = fabric.fabric().hosts().len();
    for receiver in &scenario.receivers {
        let told = SlowReceiver {
            rate: receiver.rate,
            buffer: receiver.buffer,
            xoff: receiver.xoff,
            xon: receiver.xon,
            begin: picos(receiver.begin),
            end: receiver.end.map_or(Picos::NEVER, picos),
        };
        for host in &receiver.hosts {
            if *host as usize >= count {
                let last = count.saturating_sub(1);
                return Err(miette!("a [[receiver]] names host {host}; this fabric has hosts 0 to {last}"));
            }
            let is_own = |(a, b, _): &&(At, At, Line)| [a, b].contains(&&At::Host(*host));
            let line = plan.links().iter().find(is_own).map(|(.., line)| line.rate);
            if let Some(line) = line.filter(|line| receiver.rate > *line) {
                let [rate, line] = [receiver.rate, line].map(quantity::rate);
                return Err(miette!(
                    help = format!(
                        "give `rate` {line} at most; a host that takes frames as fast as they come needs no [[receiver]]"
                    ),
                    "a [[receiver]] takes {rate} at host {host}, whose line brings {line}"
                ));
            }
            fabric.slow_down(*host, told);
        }
    }
    Ok(())
}

fn reaction(said: &scenario::Qcn, seed: Seed) -> ReactionSettings {
    let standard = ReactionSettings::STANDARD;
    ReactionSettings {
        decrease_divisor: said.decrease.unwrap_or(standard.decrease_divisor),
        recovery_cycles: said.fast_recovery.unwrap_or(standard.recovery_cycles),
        cycle_bytes: said.byte_counter.unwrap_or(standard.cycle_bytes),
        cycle_time: said.timer.unwrap_or(standard.cycle_time),
        active_step: said.additive.unwrap_or(standard.active_step),
        hyper_step: said.hyper.unwrap_or(standard.hyper_step),
        rate_min: said.rate_min.unwrap_or(standard.rate_min),
        jitter_percent: said.jitter.unwrap_or(standard.jitter_percent),
        seed: seed.number(NodeId(u32::MAX), Purpose::Sample),
        ..standard
    }
}

fn control(hosts: &scenario::Hosts) -> Control {
    match hosts.control {
        scenario::Control::None | scenario::Control::Qcn => Control::None,
        scenario::Control::Dcqcn => {
            let (said, default) = (&hosts.dcqcn, DcqcnSettings::default());
            Control::Dcqcn(DcqcnSettings {
                gain: said.gain.unwrap_or(default.gain),
                alpha_timer: said.alpha_timer.map_or(default.alpha_timer, picos),
                increase_timer: said.increase_timer.map_or(default.increase_timer, picos),
                byte_counter: said.byte_counter.unwrap_or(default.byte_counter),
                fast_recovery: said.fast_recovery.unwrap_or(default.fast_recovery),
                additive: said.additive.unwrap_or(default.additive),
                hyper: said.hyper.unwrap_or(default.hyper),
                rate_min: said.rate_min.unwrap_or(default.rate_min),
                cnp_interval: said.cnp_interval.map_or(default.cnp_interval, picos),
                cnp_class: said.cnp_class.unwrap_or(default.cnp_class),
            })
        }
        scenario::Control::Swift => {
            let (said, default) = (&hosts.swift, SwiftSettings::default());
            Control::Swift(SwiftSettings {
                target: said.target.map_or(default.target, picos),
                additive: said.additive.unwrap_or(default.additive),
                decrease: said.decrease.unwrap_or(default.decrease),
                decrease_max: said.decrease_max.unwrap_or(default.decrease_max),
                flow_range: said.flow_range.map_or(default.flow_range, picos),
                ..default
            })
        }
        scenario::Control::Timely => {
            let (said, default) = (&hosts.timely, TimelySettings::default());
            Control::Timely(TimelySettings {
                gain: said.gain.unwrap_or(default.gain),
                decrease: said.decrease.unwrap_or(default.decrease),
                additive: said.additive.unwrap_or(default.additive),
                low: said.low.map_or(default.low, picos),
                high: said.high.map_or(default.high, picos),
                idle: said.idle.map_or(default.idle, picos),
                hyper_after: said.hyper_after.unwrap_or(default.hyper_after),
                rate_min: said.rate_min.unwrap_or(default.rate_min),
                ..default
            })
        }
    }
}
