//! Plot of a case: rates of the received classes, and the PFC frames of device and tester.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, Quanta};
use xoff_wire::{Header, MacControl};

use super::{Arrival, Bench, Moment};
use crate::report::{Curve, Figure, Marker};

const INTERVALS: usize = 120;
const INTERVAL_MIN: Nanos = Nanos::from_micros(100);
const MARKERS_MAX: usize = 60;

#[derive(Clone, Debug)]
pub(super) struct SentControl {
    when: Moment,
    words: String,
    pub(super) is_xoff: bool,
}

impl SentControl {
    pub(super) fn of(bytes: &[u8], when: Moment) -> Option<SentControl> {
        let header = Header::parse(bytes).ok().filter(MacControl::is_mac_control)?;
        let (words, is_xoff) = match MacControl::parse(&header, bytes) {
            Ok(content) => (words(&content)?, is_xoff(&content)),
            Err(_) => ("invalid PFC".into(), false),
        };
        Some(SentControl { when, words, is_xoff })
    }
}

fn is_xoff(content: &MacControl) -> bool {
    match content {
        MacControl::Pfc(pfc) => pfc.classes.iter().any(|class| pfc.times[class.index()] > Quanta(0)),
        MacControl::Pause(_) => false,
    }
}

/// Names the effect of a MAC control frame, such as `XOFF 3, 4`; `None` if the frame enables no class.
fn words(content: &MacControl) -> Option<String> {
    let MacControl::Pfc(pfc) = content else { return Some("PAUSE".into()) };
    let is_xon = |class: &Class| pfc.times[class.index()] == Quanta(0);
    let (xon, xoff): (Vec<Class>, Vec<Class>) = pfc.classes.iter().partition(is_xon);
    let list = |classes: &[Class]| classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (xoff.is_empty(), xon.is_empty()) {
        (false, _) => Some(format!("XOFF {}", list(&xoff))),
        (true, false) if xon.len() == CLASSES => Some("XON".into()),
        (true, false) => Some(format!("XON {}", list(&xon))),
        (true, true) => None,
    }
}

impl Bench {
    #[must_use]
    pub fn timelines(&self) -> Vec<Figure> {
        let figures = self.ports.iter().enumerate().map(|(index, port)| self.timeline(index, &port.arrivals));
        figures.flatten().collect()
    }

    fn timeline(&self, index: usize, arrivals: &[Arrival]) -> Option<Figure> {
        let (first, last) = (arrivals.first()?.when.latest, arrivals.last()?.when.latest);
        let interval = Nanos(last.since(first).0 / INTERVALS as u64).max(INTERVAL_MIN);
        let curves = curves(arrivals, first, interval);
        let ms = |time: Nanos| (time.0 as f64 - first.0 as f64) / 1e6;
        let sent = self.ports[index].sent.iter().map(|sent| (ms(sent.when.latest), sent.words.clone()));
        let device = self.ports.iter().enumerate().flat_map(|(port, it)| {
            let controls = it
                .controls
                .iter()
                .filter_map(|control| Some((control.when, words(control.content.as_ref().ok()?)?)));
            controls.map(move |(when, words)| (ms(when.latest), format!("port {}: {words}", port + 1)))
        });
        let end = ms(last);
        let mut markers: Vec<Marker> = sent
            .chain(device)
            .filter(|(x, _)| (0.0..=end).contains(x))
            .map(|(x, label)| Marker { x: rounded(x), label })
            .collect();
        markers.sort_by(|a, b| a.x.total_cmp(&b.x));
        markers.truncate(MARKERS_MAX);
        Some(Figure {
            title: format!("Rate of each class at port {}", index + 1),
            x: "time (ms)".into(),
            y: "rate (b/s)".into(),
            curves,
            markers,
        })
    }
}

fn curves(arrivals: &[Arrival], first: Nanos, interval: Nanos) -> Vec<Curve> {
    let classes: ClassSet = arrivals.iter().map(|arrival| arrival.class).collect();
    let place =
        |arrival: &Arrival| usize::try_from(arrival.when.latest.since(first).0 / interval.0).unwrap_or(0);
    let intervals = arrivals.last().map_or(0, place) + 1;
    let curve = |class: Class| {
        let mut bytes = vec![Bytes::ZERO; intervals];
        for arrival in arrivals.iter().filter(|arrival| arrival.class == class) {
            bytes[place(arrival).min(intervals - 1)] += Bytes::on_line(arrival.len);
        }
        // Omit the last interval: it is incomplete, so its rate would be too low.
        let complete = bytes.len().saturating_sub(1).max(1);
        let points = bytes[..complete].iter().enumerate().map(|(place, bytes)| {
            let middle = (place as f64 + 0.5) * interval.0 as f64 / 1e6;
            (rounded(middle), (bytes.0 as f64 * 8e9 / interval.0 as f64).round())
        });
        Curve { name: format!("class {class}"), points: points.collect() }
    };
    classes.iter().map(curve).collect()
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use xoff_wire::Pfc;

    use super::*;
    use crate::bench::StreamId;

    fn arrival(class: usize, micros: u64) -> Arrival {
        let latest = Nanos::from_micros(1_000_000 + micros);
        Arrival {
            when: Moment { earliest: latest, latest },
            stream: StreamId(0),
            sequence: micros,
            class: Class::ALL[class],
            tag: None,
            dscp: 0,
            ecn: 0,
            len: 1_226, // 1,250 bytes on the line
            is_intact: true,
        }
    }

    #[test]
    fn rate_curve_of_class_is_zero_during_its_pause() {
        let class_3 = (0..12).filter(|ms| !(4..8).contains(ms)).map(|ms| arrival(3, ms * 1_000));
        let mut arrivals: Vec<Arrival> =
            class_3.chain((0..12).map(|ms| arrival(4, ms * 1_000 + 1))).collect();
        arrivals.sort_by_key(|arrival| arrival.sequence);
        let first = arrivals[0].when.latest;
        let curves = curves(&arrivals, first, Nanos::from_millis(2));
        let rates = |curve: &Curve| curve.points.iter().map(|point| point.1).collect::<Vec<_>>();
        assert_eq!(rates(&curves[0]), [1e7, 1e7, 0.0, 0.0, 1e7]);
        assert_eq!(rates(&curves[1]), [1e7; 5]);
        assert_eq!((curves[0].name.as_str(), curves[0].points[1].0), ("class 3", 3.0));
    }

    #[test]
    fn pause_marker_in_figure_names_paused_classes() {
        let pfc = |times: &[(usize, u16)]| {
            let times = times.iter();
            MacControl::Pfc(
                times.fold(Pfc::default(), |pfc, &(class, time)| pfc.with(Class::ALL[class], Quanta(time))),
            )
        };
        let all: Vec<(usize, u16)> = (0..8).map(|class| (class, 0)).collect();
        for (content, text) in [
            (pfc(&[(3, 9), (4, 1), (5, 0)]), Some("XOFF 3, 4")),
            (pfc(&[(3, 0)]), Some("XON 3")),
            (pfc(&all), Some("XON")),
            (pfc(&[]), None),
            (MacControl::Pause(Quanta(1)), Some("PAUSE")),
        ] {
            assert_eq!(words(&content).as_deref(), text, "{content:?}");
        }
    }
}
