//! Draws plots as SVG for the HTML report, whose style sheet has the colours for light and dark pages.

use std::fmt::Write as _;

use super::html::escaped;
use super::{Curve, Figure};

const WIDTH: f64 = 440.0;
const PLOT_HEIGHT: f64 = 180.0;
/// Height of the space for marker labels above the plot, in pixels.
const TOP: f64 = 3.0 * LINE;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 14.0;
const BELOW: f64 = 38.0;
const LINE: f64 = 15.0;
/// Assumed width of a character in pixels, above the mean of a sans-serif font.
const CHARACTER: f64 = 6.6;
const DOTS_MAX: usize = 40;
const STYLES: usize = 6;

impl Figure {
    pub(super) fn to_svg(&self) -> String {
        let axes = Axes::of(self);
        let bottom = TOP + PLOT_HEIGHT;
        let legend = self.legend();
        let rows = legend.last().map_or(0.0, |(_, y, _)| y + LINE);
        let height = bottom + BELOW + rows;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(&self.title)
        );
        axes.draw(&mut svg, &self.x, &self.y);
        for marker in self.markers.iter().filter(|marker| is_drawable(marker.x)) {
            let x = axes.x(marker.x);
            let title = escaped(&marker.label);
            let _ = writeln!(
                svg,
                "<path class=\"marker\" d=\"M{x:.1} {TOP}V{bottom}\"><title>{title}</title></path>"
            );
        }
        for (label, x, y, anchor) in self.marker_labels(&axes) {
            let label = escaped(label);
            let _ = writeln!(
                svg,
                "<text class=\"marker\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{label}</text>"
            );
        }
        for (place, curve) in self.curves.iter().enumerate() {
            draw_curve(&mut svg, curve, place % STYLES, &axes);
        }
        for (place, (x, y, name)) in legend.iter().enumerate() {
            let (style, y) = (place % STYLES, bottom + BELOW + y);
            let (to, of_text, name) = (x + 22.0, x + 27.0, escaped(name));
            let _ = writeln!(
                svg,
                "<path class=\"curve c{style}\" d=\"M{x:.1} {y}H{to:.1}\"/><text x=\"{of_text:.1}\" y=\"{}\">{name}</text>",
                y + 4.0
            );
        }
        svg + "</svg>\n"
    }

    /// Returns each legend entry's left end and distance below the plot, in pixels, and its name.
    fn legend(&self) -> Vec<(f64, f64, &str)> {
        let (mut x, mut y) = (8.0, 6.0);
        let place = |curve: &'_ Curve| {
            let width = 42.0 + CHARACTER * curve.name.chars().count() as f64;
            if x > 8.0 && x + width > WIDTH {
                (x, y) = (8.0, y + LINE);
            }
            x += width;
            (x - width, y)
        };
        self.curves
            .iter()
            .map(place)
            .zip(&self.curves)
            .map(|((x, y), curve)| (x, y, curve.name.as_str()))
            .collect()
    }

    /// Returns text, position and anchor of the marker labels that fit without overlap. Equal labels appear once.
    fn marker_labels(&self, axes: &Axes) -> Vec<(&str, f64, f64, &'static str)> {
        let mut placed: Vec<(&str, f64, f64, &'static str)> = Vec::new();
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for marker in self.markers.iter().filter(|marker| is_drawable(marker.x)) {
            let label = marker.label.as_str();
            if label.is_empty() || placed.iter().any(|(other, ..)| *other == label) {
                continue;
            }
            let (x, width) = (axes.x(marker.x), CHARACTER * label.chars().count() as f64);
            let (from, at, anchor) =
                if x + width < WIDTH { (x, x + 2.0, "start") } else { (x - width, x - 2.0, "end") };
            let is_free = |y: &f64| {
                taken.iter().all(|(row, left, right)| row != y || from > *right || from + width < *left)
            };
            if let Some(y) = [TOP - 4.0, TOP - LINE - 4.0, TOP - 2.0 * LINE - 4.0].into_iter().find(is_free) {
                taken.push((y, from, from + width));
                placed.push((label, at, y, anchor));
            }
        }
        placed
    }
}

fn draw_curve(svg: &mut String, curve: &Curve, style: usize, axes: &Axes) {
    let is_drawn = |&(x, y): &(f64, f64)| is_drawable(x) && is_drawable(y);
    let mut path = String::new();
    for part in curve.points.split(|point| !is_drawn(point)) {
        let mut verb = 'M';
        for (x, y) in shown(part, axes) {
            let _ = write!(path, "{verb}{:.1} {:.1}", axes.x(x), axes.y(y));
            verb = 'L';
        }
    }
    if path.is_empty() {
        return;
    }
    let _ = writeln!(svg, "<path class=\"curve c{style}\" d=\"{path}\"/>");
    if curve.points.len() <= DOTS_MAX {
        for (x, y) in curve.points.iter().copied().filter(is_drawn) {
            let _ = writeln!(
                svg,
                "<circle class=\"dot d{style}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                axes.x(x),
                axes.y(y)
            );
        }
    }
}

/// Returns the points that are visible: in each pixel column the first, lowest, highest and last.
fn shown(points: &[(f64, f64)], axes: &Axes) -> Vec<(f64, f64)> {
    let columns = points.chunk_by(|a, b| axes.x(a.0).floor() == axes.x(b.0).floor());
    let of_column = |column: &[(f64, f64)]| {
        if column.len() <= 4 {
            return column.to_vec();
        }
        let extremes = column.iter().enumerate().fold((0, 0), |(low, high), (place, point)| {
            let low = if point.1 < column[low].1 { place } else { low };
            (low, if point.1 > column[high].1 { place } else { high })
        });
        let mut places = vec![0, extremes.0, extremes.1, column.len() - 1];
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| column[place]).collect()
    };
    columns.flat_map(of_column).collect()
}

struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn of(figure: &Figure) -> Axes {
        let all = figure.curves.iter().flat_map(|curve| &curve.points);
        let points: Vec<(f64, f64)> =
            all.copied().filter(|&(x, y)| is_drawable(x) && is_drawable(y)).collect();
        let markers = figure.markers.iter().map(|marker| marker.x).filter(|x| is_drawable(*x));
        let x = range(points.iter().map(|point| point.0).chain(markers));
        let top = if points.iter().all(|point| point.1 == 0.0) { 1.0 } else { 0.0 };
        let y = range(points.iter().map(|point| point.1).chain([0.0, top]));
        let step = step(y.1 - y.0, 5.0);
        Axes { x, y: ((y.0 / step).floor() * step, (y.1 / step).ceil() * step) }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        TOP + (self.y.1 - y) / (self.y.1 - self.y.0) * PLOT_HEIGHT
    }

    fn draw(&self, svg: &mut String, x_label: &str, y_label: &str) {
        let (right, bottom, middle) = (WIDTH - RIGHT, TOP + PLOT_HEIGHT, TOP + PLOT_HEIGHT / 2.0);
        for (value, text) in ticks(self.y, 5.0) {
            let y = self.y(value);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 5.0,
                y + 4.0
            );
        }
        for (value, text) in ticks(self.x, 6.0) {
            let x = self.x(value);
            let (from, below) = (bottom + 4.0, bottom + LINE);
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {bottom}V{from}\"/><text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" transform=\"translate(11 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            bottom + 2.0 * LINE + 1.0,
            escaped(x_label),
            escaped(y_label)
        );
    }
}

/// Returns false for infinite and missing numbers, which report files may have.
fn is_drawable(number: f64) -> bool {
    number.abs() < 1e300
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    match (low, high) {
        (low, high) if low > high => (0.0, 1.0),
        (low, high) if high - low <= (high.abs().max(low.abs()) * 1e-9).max(1e-290) => {
            (low - 0.5, low + low.abs() * 1e-6 + 0.5)
        }
        range => range,
    }
}

/// Returns the distance between ticks of which about `count` fit into `width`: 1, 2 or 5 times a power of ten.
fn step(width: f64, count: f64) -> f64 {
    let raw = width / count;
    let decade = 10_f64.powf(raw.log10().floor());
    let factor =
        [1.0, 2.0, 5.0].into_iter().find(|factor| raw <= factor * decade * 1.000_001).unwrap_or(10.0);
    factor * decade
}

fn ticks((low, high): (f64, f64), count: f64) -> Vec<(f64, String)> {
    let step = step(high - low, count);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most ten, and positive
    let decimals = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
    let first = (low / step - 1e-6).ceil();
    let all = (0..=20)
        .map(|place| (first + f64::from(place)) * step)
        .take_while(|tick| *tick <= high + step * 1e-6);
    let text = |tick: f64| {
        let largest = low.abs().max(high.abs());
        let (unit, factor) = match largest {
            size if size >= 1e9 => ("G", 1e9),
            size if size >= 1e6 => ("M", 1e6),
            size if size >= 1e4 => ("k", 1e3),
            _ => return format!("{:.decimals$}", tick + 0.0),
        };
        let text = format!("{:.3}", tick / factor);
        let number = text.trim_end_matches('0').trim_end_matches('.');
        if number == "0" { "0".into() } else { format!("{number}{unit}") }
    };
    all.map(|tick| (tick, text(if tick.abs() < step * 1e-6 { 0.0 } else { tick }))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Marker;
    use super::*;

    fn figure(points: Vec<(f64, f64)>, markers: Vec<Marker>) -> Figure {
        let curves = vec![Curve { name: "class <3>".into(), points }];
        Figure { title: "rate".into(), x: "time (ms)".into(), y: "rate (b/s)".into(), curves, markers }
    }

    fn marker(x: f64, label: &str) -> Marker {
        Marker { x, label: label.into() }
    }

    #[test]
    fn missing_value_interrupts_curve_of_figure() {
        let svg =
            figure(vec![(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)], vec![]).to_svg();
        let curve = svg.lines().find(|line| line.contains("class=\"curve c0\" d=\"M60")).expect("a curve");
        assert_eq!(curve.matches('M').count(), 2, "{curve}");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("class &lt;3&gt;"));
    }

    #[test]
    fn figure_curve_with_fewer_points_keeps_extreme_values() {
        let spike = |n: u32| if n == 5_003 { 9.0 } else { 1.0 };
        let points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), spike(n))).collect();
        let axes = Axes::of(&figure(points.clone(), vec![]));
        let shown = shown(&points, &axes);
        assert!(shown.contains(&(5_003.0, 9.0)) && shown.len() < 1_600, "{}", shown.len());
    }

    #[test]
    fn axes_of_figure_with_extreme_values_are_finite() {
        let ends = [0.0, 1.0, -3.0, 1e300, -1e300, 5e-324, f64::INFINITY, f64::NAN, f64::MAX, f64::MIN];
        for a in ends {
            for b in ends {
                let svg = figure(vec![(a, b), (b, a)], vec![marker(a, "x")]).to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{a} {b}: {svg}");
                assert!(svg.matches("class=\"grid\"").count() <= 21);
            }
        }
        assert!(figure(vec![], vec![]).to_svg().ends_with("</svg>\n"));
    }

    #[test]
    fn axis_ticks_of_figure_are_round_numbers() {
        let texts = |range| ticks(range, 5.0).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(texts((0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts((-3.0, 7.0)), ["-2", "0", "2", "4", "6"]);
        assert_eq!(texts((0.0, 1e9)), ["0", "0.2G", "0.4G", "0.6G", "0.8G", "1G"]);
        assert_eq!(texts((90_000.0, 100_000.0)), ["90k", "92k", "94k", "96k", "98k", "100k"]);
    }

    #[test]
    fn marker_labels_of_figure_do_not_overlap() {
        let points = vec![(0.0, 0.0), (10.0, 1.0)];
        let labels = |markers| {
            let figure = figure(points.clone(), markers);
            let placed = figure.marker_labels(&Axes::of(&figure)).into_iter();
            placed.map(|(label, _, y, anchor)| (label.to_owned(), y, anchor)).collect::<Vec<_>>()
        };
        let near = ["XOFF", "last frame", "XON", "limit"].map(|label| marker(2.0, label));
        let rows: Vec<f64> = labels(near.into()).iter().map(|label| label.1).collect();
        assert_eq!(rows, [41.0, 26.0, 11.0], "the fourth label must be left out for lack of room");
        let same = labels(vec![marker(1.0, "XOFF"), marker(6.0, "XOFF"), marker(9.9, "XON")]);
        assert_eq!(same.iter().map(|label| label.2).collect::<Vec<_>>(), ["start", "end"]);
    }
}
