//! Group `lldp`: does the device announce its PFC settings by DCBX (IEEE 802.1Qaz, or its predecessor CEE), and correctly at each port?

use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Bytes, Class, ClassSet, Nanos};

use super::complete::drain;
use super::streams::{
    BEFORE, PATIENCE, QUANTA_MAX, between, free_class, marked, rate, require_long_enough, response_limit,
};
use super::{Case, Run};
use crate::bench::{Bench, Flow, Void};
use crate::dcbx::{self, Announced, WAIT};
use crate::judgement::Judgement;

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    Case { id, title, source: "IEEE 802.1Q annex D.2.10, D.2.11, 38", ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("lldp.present", "Does the device announce its PFC settings?", present),
    case("lldp.classes", "Does the device announce its lossless classes?", classes),
    case("lldp.measured", "Does each port obey pauses of exactly the classes that it announces?", measured),
    case("lldp.dscp", "Does the device announce the classes of its DSCP map?", dscp),
];

fn announced(bench: &mut Bench) -> Result<Vec<Option<Announced>>, Void> {
    if !bench.setup.device.dcbx {
        return Err(Void::NotPossible(
            "the setup file does not say that the device speaks DCBX; set `dcbx`".into(),
        ));
    }
    let all = |bench: &Bench| (0..bench.ports().len()).map(|port| find(bench, port)).collect::<Vec<_>>();
    bench.run_until(WAIT, |bench| all(bench).iter().all(Option::is_some))?;
    Ok(all(bench))
}

fn find(bench: &Bench, port: usize) -> Option<Announced> {
    bench.others(port).iter().rev().find_map(|frame| dcbx::read(&frame.bytes))
}

fn announced_classes(bench: &mut Bench) -> Result<Vec<(usize, ClassSet)>, Void> {
    let announced = announced(bench)?.into_iter().enumerate();
    let classes: Vec<_> = announced.filter_map(|(port, it)| Some((port, it?.classes?))).collect();
    match classes.is_empty() {
        true => Err(Void::NotPossible("the device announces no PFC classes; see case lldp.present".into())),
        false => Ok(classes),
    }
}

fn present(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for (port, announced) in (1..).zip(announced(bench)?) {
        judgement.require_in_time(announced.is_some(), || {
            format!("the device sent no LLDP frame to port {port} for {} s", WAIT.0 / 1_000_000_000)
        });
        judgement.require(announced.is_none_or(|it| it.classes.is_some()), || {
            format!("the LLDP frame at port {port} has no PFC TLV")
        });
    }
    Ok(judgement)
}

fn classes(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let lossless = bench.setup.device.lossless;
    for (port, classes) in announced_classes(bench)? {
        let port = port + 1;
        judgement.require(classes == lossless, || {
            format!("port {port} gets the PFC classes {classes:?}, but the setup file has {lossless:?}")
        });
        judgement.note(format!("PFC classes announced to port {port}: {classes:?}"));
    }
    Ok(judgement)
}

fn measured(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for (port, announced) in announced_classes(bench)? {
        let (examined, stopped) = stopped_by(bench, port)?;
        let port = port + 1;
        // A device may obey pauses of more classes than it pauses itself.
        let allowed = ClassSet(announced.0 | bench.setup.device.obeys.0);
        for class in examined {
            let (is_announced, has_stopped) = (announced.contains(class), stopped.contains(class));
            judgement.require_in_time(has_stopped || !is_announced, || {
                format!(
                    "the device announces PFC for class {class} to port {port}, but its pause has no effect"
                )
            });
            judgement.require_in_time(!has_stopped || allowed.contains(class), || {
                format!("port {port} can pause class {class}, for which the device announces no PFC")
            });
        }
        judgement.note(format!("classes that port {port} can pause: {stopped:?}"));
    }
    Ok(judgement)
}

/// Pauses all classes at `port` once. Returns the classes that were examined, and those that stopped.
fn stopped_by(bench: &mut Bench, port: usize) -> Result<(Vec<Class>, ClassSet), Void> {
    let (from, time) = (usize::from(port == 0), bench.pause_time(port, QUANTA_MAX));
    require_long_enough(bench, time)?;
    let classes = marked(bench, ClassSet::ALL)?;
    let free = free_class(bench);
    bench.end_heartbeat();
    bench.start_heartbeat(port, from, free)?;
    let rate = rate(bench.port(from).speed().min(bench.port(port).speed()), classes.len());
    let mut streams = Vec::new();
    for class in &classes {
        streams.push(bench.stream(Flow::new(from, port, *class).rate(rate))?);
    }
    bench.run_for(BEFORE)?;
    let (begin, interval) = (bench.now(), rate.time_of(Bytes::on_line(Flow::new(from, port, free).size)));
    let arrive = |bench: &Bench| streams.iter().all(|stream| bench.tally(*stream).frames > 2);
    if !bench.run_until(PATIENCE.max(Nanos(4 * interval.0)), arrive)? {
        bench.require_heartbeat(begin, bench.now())?;
        return Err(Void::Failed(format!(
            "the device does not forward all classes from port {} to port {}",
            from + 1,
            port + 1
        )));
    }
    let sent = bench.pause(port, &Class::ALL.map(|class| (class, QUANTA_MAX)));
    bench.run_for(time)?;
    let window = (sent.latest.after(response_limit(bench)), sent.earliest.after(time));
    bench.require_heartbeat(window.0, window.1)?;
    let expected = window.1.since(window.0).0 / interval.0.max(1);
    if expected < 4 {
        return Err(Void::Disturbed(format!("a pause is too short for frames of {} classes", classes.len())));
    }
    bench.resume(port, ClassSet::ALL);
    bench.stop_streams(&streams);
    let has_stopped = |stream| (between(bench, stream, window.0, window.1).len() as u64) < expected / 2;
    let stopped = classes.iter().zip(&streams).filter(|(_, stream)| has_stopped(**stream));
    let stopped = stopped.map(|(class, _)| *class).collect();
    drain(bench, &streams)?;
    Ok((classes, stopped))
}

fn dscp(bench: &mut Bench) -> Result<Judgement, Void> {
    if matches!(bench.setup.device.trust, Trust::Pcp | Trust::Port) {
        return Err(Void::NotPossible("the device classifies no frame by DSCP; see `trust`".into()));
    }
    let announced = announced(bench)?;
    let map = &bench.setup.device.dscp_to_class;
    let mut judgement = Judgement::new();
    let mut count = 0;
    for (port, announced) in (1..).zip(&announced) {
        let Some(announced) = announced else { continue };
        count += announced.dscps.len();
        for (dscp, announced, expected) in announced.dscps.iter().filter_map(|entry| mismatch(*entry, map)) {
            judgement.require(false, || {
                format!("port {port} gets class {announced} for DSCP {dscp}; the setup file has {expected}")
            });
        }
    }
    if count == 0 {
        return Err(Void::NotPossible("the device announces no class of a DSCP".into()));
    }
    judgement.measure("announced classes of a DSCP", count as f64, "entries");
    Ok(judgement)
}

fn mismatch((dscp, class): (u16, Class), map: &[Class; 64]) -> Option<(u16, Class, Class)> {
    let expected = *map.get(usize::from(dscp))?;
    (class != expected).then_some((dscp, class, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_dscp_of_another_class_is_a_mismatch() {
        let map = std::array::from_fn(|dscp| Class::ALL[dscp / 8]);
        let entry = |class: usize, dscp| (dscp, Class::ALL[class]);
        for (entry, expected) in [
            (entry(3, 24), None),
            (entry(3, 31), None),
            (entry(3, 32), Some((32, Class::ALL[3], Class::ALL[4]))),
            (entry(3, 64), None),
        ] {
            assert_eq!(mismatch(entry, &map), expected);
        }
    }
}
