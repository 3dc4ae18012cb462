use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{colour, dashes};
use super::{Content, Figure, Panel, Point, Scale, nice_top};
use crate::statistics::Spread;
use xoff_config::format::scaled;

const PANEL: (u32, u32) = (520, 330);
const COLUMNS: usize = 2;
const TITLE_TEXT_HEIGHT: i32 = 17;
const TITLE_LINE_HEIGHT: i32 = 22;
const TITLE_CHARACTER_WIDTH: u32 = 9;
const LEGEND_ROW_HEIGHT: u32 = 22;
const LEGEND_COLUMN_WIDTH: u32 = 165;
const LEGEND_LINE: i32 = 28;
const LINE_WIDTH: u32 = 2;
const CHARACTER_WIDTH: u32 = 7;
const NUMBER_WIDTH: u32 = 45;
const MARKED: usize = 12;
const FONT: &str = "sans-serif";
const TEXT_HEIGHT: i32 = 13;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;

impl Figure {
    pub(super) fn draw(&self, svg: &mut String) -> DrawResult {
        let names = self.names();
        let columns = self.panels.len().clamp(1, COLUMNS);
        let width = PANEL.0 * u32::try_from(columns)?;
        let rows = self.panels.len().div_ceil(columns);
        let panels_height: u32 = (0..rows).map(|row| self.row_height(row * columns, columns)).sum();
        let in_legend = self.legend(&names);
        let longest = in_legend.iter().map(|name| name.len()).max().unwrap_or(0);
        let column_width = LEGEND_COLUMN_WIDTH.max(52 + CHARACTER_WIDTH * u32::try_from(longest)?);
        let per_legend_row = usize::try_from(width / column_width)?.max(1);
        let legend_rows = u32::try_from(in_legend.len().div_ceil(per_legend_row))?;
        let legend_height = legend_rows * LEGEND_ROW_HEIGHT + 10;
        let title_lines = broken(&self.title, usize::try_from((width - 24) / TITLE_CHARACTER_WIDTH)?);
        let title_height = 22 + u32::try_from(TITLE_LINE_HEIGHT)? * u32::try_from(title_lines.len())?;
        let size = (width, title_height + panels_height + legend_height);
        let root = SVGBackend::with_string(svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (title, rest) = root.split_vertically(title_height);
        for (y, line) in (14..).step_by(usize::try_from(TITLE_LINE_HEIGHT)?).zip(title_lines) {
            title.draw(&Text::new(line, (12, y), (FONT, TITLE_TEXT_HEIGHT)))?;
        }
        let (mut rest, legend) = rest.split_vertically(panels_height);
        for row in 0..rows {
            let (this, below) = rest.split_vertically(self.row_height(row * columns, columns));
            for (area, panel) in this.split_evenly((1, columns)).iter().zip(&self.panels[row * columns..]) {
                panel.draw(area, &names)?;
            }
            rest = below;
        }
        for (place, &name) in in_legend.iter().enumerate() {
            let x = 14 + i32::try_from(place % per_legend_row * usize::try_from(column_width)?)?;
            let y = 4 + i32::try_from(place / per_legend_row * usize::try_from(LEGEND_ROW_HEIGHT)?)?;
            let line = vec![(x, y + 6), (x + LEGEND_LINE, y + 6)];
            legend.draw(&PathElement::new(line, colour(&names, name).stroke_width(LINE_WIDTH)))?;
            legend.draw(&Text::new(name.to_owned(), (x + LEGEND_LINE + 6, y), (FONT, TEXT_HEIGHT)))?;
        }
        root.present()?;
        Ok(())
    }

    /// Dashes the lines of all legend names but the first by an SVG attribute; the plotting library would draw each
    /// dash separately.
    pub(super) fn dashed(&self, svg: String) -> String {
        let names = self.names();
        let in_legend = self.legend(&names);
        in_legend.iter().fold(svg, |svg, name| {
            let Some(dashes) = dashes(&in_legend, name) else { return svg };
            let RGBColor(red, green, blue) = colour(&names, name);
            let style = format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\" stroke-width=\"{LINE_WIDTH}\"");
            svg.replace(
                &format!("{style} points="),
                &format!("{style} stroke-dasharray=\"{dashes}\" points="),
            )
        })
    }

    fn row_height(&self, first: usize, columns: usize) -> u32 {
        let names = |panel: &Panel| match &panel.content {
            Content::Lines(_) => 0,
            Content::Spreads(rows) => rows.len(),
            Content::Spans(rows) => rows.len(),
        };
        let most = self.panels[first..].iter().take(columns).map(names).max().unwrap_or(0);
        PANEL.1.max(90 + 22 * u32::try_from(most).unwrap_or(0))
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.panels.iter().flat_map(Panel::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn legend<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let is_line = |name: &str| {
            self.panels.iter().any(|panel| match &panel.content {
                Content::Lines(lines) => lines.iter().any(|(line, _)| line == name),
                _ => false,
            })
        };
        names.iter().copied().filter(|name| is_line(name)).collect()
    }
}

impl Panel {
    fn names(&self) -> impl Iterator<Item = &str> {
        let names: Vec<&str> = match &self.content {
            Content::Lines(lines) => lines.iter().map(|(name, _)| name.as_str()).collect(),
            Content::Spreads(rows) => rows.iter().map(|(name, _)| name.as_str()).collect(),
            Content::Spans(rows) => rows.iter().map(|(name, _)| name.as_str()).collect(),
        };
        names.into_iter()
    }

    fn draw(&self, area: &Area<'_>, names: &[&str]) -> DrawResult {
        match &self.content {
            Content::Lines(lines) => self.draw_lines(area, names, lines),
            Content::Spreads(rows) => self.draw_spreads(area, names, rows),
            Content::Spans(rows) => self.draw_spans(area, names, rows),
        }
    }

    fn draw_lines(&self, area: &Area<'_>, names: &[&str], lines: &[(String, Vec<Point>)]) -> DrawResult {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let place = |x: f64| match self.scale {
            Scale::Linear => x,
            Scale::Decades => x.max(f64::MIN_POSITIVE).log10(),
        };
        let limits = self.limits.x.map(|(from, to)| (place(from), place(to)));
        let (from, to) = limits.unwrap_or_else(|| ends(points().map(|point| place(point.0))));
        let top = self.limits.top.unwrap_or_else(|| nice_top(points().filter_map(|point| point.1)));
        let number = |x: &f64| match self.scale {
            Scale::Linear => number_label(x),
            Scale::Decades => decade_label(10_f64.powf(*x)),
        };
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(12)
            .margin_right(label_margin(&number(&to)))
            .x_label_area_size(38)
            .y_label_area_size(62)
            .build_cartesian_2d(from..to, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .label_style((FONT, TEXT_HEIGHT))
            .max_light_lines(0)
            .x_label_formatter(&number)
            .y_label_formatter(&number_label)
            .draw()?;
        for (name, points) in lines {
            let colour = colour(names, name);
            for part in points.split(|point| point.1.is_none()) {
                let part: Vec<(f64, f64)> = part.iter().filter_map(|&(x, y)| Some((place(x), y?))).collect();
                if points.len() <= MARKED {
                    chart.draw_series(part.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
                }
                let visible = visible(&part, |point| chart.backend_coord(point).0);
                chart.draw_series(LineSeries::new(visible, colour.stroke_width(LINE_WIDTH)))?;
            }
        }
        let notes = lines.iter().filter_map(|(name, points)| Some((name, self.note(name, points)?)));
        let inside = chart.plotting_area().strip_coord_spec();
        for (y, (name, note)) in (4..).step_by(16).zip(notes) {
            let style = (FONT, TEXT_HEIGHT).into_font().color(&colour(names, name));
            inside.draw(&Text::new(note, (8, y), style))?;
        }
        Ok(())
    }

    fn note(&self, name: &str, points: &[Point]) -> Option<String> {
        let gaps: Vec<String> =
            points.iter().filter(|point| point.1.is_none()).map(|point| number_label(&point.0)).collect();
        let absent = self.absent.filter(|_| !gaps.is_empty())?;
        let everywhere = gaps.len() == points.len();
        Some(if everywhere {
            format!("{name}: {absent}")
        } else {
            format!("{name}: {absent} at {}", gaps.join(", "))
        })
    }

    fn draw_spreads(&self, area: &Area<'_>, names: &[&str], rows: &[(String, Option<Spread>)]) -> DrawResult {
        let drawn = || (0.0, nice_top(rows.iter().filter_map(|(_, spread)| Some(spread.as_ref()?.max))));
        let (from, to) = self.limits.x.unwrap_or_else(drawn);
        let labels: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let mut chart = self.chart_of_rows(area, from..to, &labels)?;
        for (row, (name, spread)) in rows.iter().enumerate() {
            let colour = colour(names, name);
            let at = middle(row, rows.len());
            let Some(spread) = spread else {
                let left = Pos::new(HPos::Left, VPos::Center);
                let style = (FONT, TEXT_HEIGHT).into_font().color(&colour).pos(left);
                let note = Text::new(self.absent.unwrap_or_default(), (8, 0), style);
                chart.draw_series([EmptyElement::at((0.0, at)) + note])?;
                continue;
            };
            let line = |a: f64, b: f64, y0: f64, y1: f64, width: u32| {
                PathElement::new(vec![(a, y0), (b, y1)], colour.stroke_width(width))
            };
            chart.draw_series([
                line(spread.min, spread.max, at, at, 1),
                line(spread.min, spread.min, at - 0.15, at + 0.15, 1),
                line(spread.max, spread.max, at - 0.15, at + 0.15, 1),
                line(spread.p50, spread.p50, at - 0.34, at + 0.34, 3),
            ])?;
            let corners = [(spread.p25, at - 0.28), (spread.p75, at + 0.28)];
            chart.draw_series([Rectangle::new(corners, colour.mix(0.35).filled())])?;
        }
        Ok(())
    }

    fn draw_spans(&self, area: &Area<'_>, names: &[&str], rows: &[(String, Vec<(f64, f64)>)]) -> DrawResult {
        let drawn = || ends(rows.iter().flat_map(|(_, spans)| spans).flat_map(|span| [span.0, span.1]));
        let (from, to) = self.limits.x.unwrap_or_else(drawn);
        let labels: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let mut chart = self.chart_of_rows(area, from..to, &labels)?;
        for (row, (name, spans)) in rows.iter().enumerate() {
            let colour = colour(names, name);
            let at = middle(row, rows.len());
            let bar = |span: &(f64, f64)| {
                Rectangle::new([(span.0, at - 0.32), (span.1, at + 0.32)], colour.filled())
            };
            let spans = joined(spans, |x| chart.backend_coord(&(x, at)).0);
            chart.draw_series(spans.iter().map(bar))?;
        }
        if let (true, Some(absent)) = (rows.is_empty(), self.absent) {
            let inside = chart.plotting_area().strip_coord_spec();
            inside.draw(&Text::new(absent, (8, 4), (FONT, TEXT_HEIGHT)))?;
        }
        Ok(())
    }

    fn chart_of_rows<'a, 'b>(
        &self,
        area: &'b Area<'a>,
        x: Range<f64>,
        labels: &[&str],
    ) -> Result<RowChart<'a, 'b>, Box<dyn std::error::Error>> {
        let longest = labels.iter().map(|label| label.len()).max().unwrap_or(0);
        let label_width = 16 + CHARACTER_WIDTH * u32::try_from(longest)?;
        let (width, _) = area.dim_in_pixel();
        let numbers = usize::try_from(width.saturating_sub(label_width + 24) / NUMBER_WIDTH)?.max(2);
        let count = labels.len().max(1);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(12)
            .margin_right(label_margin(&number_label(&x.end)))
            .x_label_area_size(38)
            .y_label_area_size(label_width)
            .build_cartesian_2d(x, -0.5..count as f64 - 0.5)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .label_style((FONT, TEXT_HEIGHT))
            .max_light_lines(0)
            .disable_y_mesh()
            .x_labels(numbers)
            .y_labels(count + 1)
            .x_label_formatter(&number_label)
            .y_label_formatter(&|place| {
                let row = (0..labels.len()).find(|&row| (middle(row, count) - place).abs() < 1e-6);
                row.map_or_else(String::new, |row| labels[row].to_owned())
            })
            .draw()?;
        Ok(chart)
    }
}

type RowChart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn visible(points: &[(f64, f64)], column: impl Fn(&(f64, f64)) -> i32) -> Vec<(f64, f64)> {
    let of_column = |points: &[(f64, f64)]| {
        let by_height = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        let places = 0..points.len();
        let (lowest, highest) = (places.clone().min_by(by_height), places.clone().max_by(by_height));
        let shown = [Some(0), lowest, highest, places.clone().last()];
        places.filter(|&place| shown.contains(&Some(place))).map(|place| points[place]).collect::<Vec<_>>()
    };
    points.chunk_by(|a, b| column(a) == column(b)).flat_map(of_column).collect()
}

fn joined(spans: &[(f64, f64)], column: impl Fn(f64) -> i32) -> Vec<(f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for &(from, to) in spans {
        match joined.last_mut() {
            Some(last) if column(from) <= column(last.1) && last.0 <= from => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

fn middle(row: usize, count: usize) -> f64 {
    (count - row) as f64 - 1.0
}

fn label_margin(last: &str) -> u32 {
    u32::try_from(last.len()).map_or(0, |len| CHARACTER_WIDTH * len / 2).max(12)
}

fn broken(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= most => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (from, to) = values.fold((f64::MAX, f64::MIN), |(from, to), value| (from.min(value), to.max(value)));
    match (from, to) {
        (from, to) if from < to => (from, to),
        (from, to) if from == to => (from - 0.5, to + 0.5),
        _ => (0.0, 1.0),
    }
}

fn decade_label(value: f64) -> String {
    match value {
        small if small < 10.0 => number_label(&small),
        few if few < 100.0 => format!("{few:.1}").trim_end_matches(".0").to_owned(),
        many => scaled(many, ""),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // signature required by plotters
fn number_label(value: &f64) -> String {
    if *value != 0.0 && value.abs() < 10.0 && value.fract() != 0.0 {
        let text = format!("{value:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{value:.0}")
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;

    #[test]
    fn plot_omits_hidden_points_of_a_pixel_column() {
        let points = [5.0, 1.0, 4.0, 9.0, 6.0, 7.0, 2.0].iter().zip(0..);
        let points: Vec<(f64, f64)> = points.map(|(&y, x)| (f64::from(x) / 6.0, y)).collect();
        let heights = |points: &[(f64, f64)]| points.iter().map(|point| point.1).collect::<Vec<f64>>();
        let shown = visible(&points, |point| i32::from(point.0 >= 1.0));
        assert_eq!(heights(&shown), [5.0, 1.0, 9.0, 7.0, 2.0]);
        let shown = visible(&points, |point| (point.0 * 6.0).round() as i32);
        assert_eq!(heights(&shown), heights(&points));
    }

    #[test]
    fn plot_draws_touching_spans_as_one_bar() {
        let column = |x: f64| x as i32;
        assert_eq!(joined(&[(0.0, 0.4), (0.6, 2.0), (3.0, 4.0)], column), [(0.0, 2.0), (3.0, 4.0)]);
        assert_eq!(joined(&[(3.0, 4.0), (0.0, 1.0)], column), [(3.0, 4.0), (0.0, 1.0)]);
    }

    #[test]
    fn axis_labels_within_a_decade_are_distinct() {
        let labels = [0.0, 0.2, 0.4, 1.0, 1.1, 3.0, 4.5].map(|log: f64| decade_label(10_f64.powf(log)));
        assert_eq!(labels, ["1", "1.58", "2.51", "10", "12.6", "1.00 k", "31.6 k"]);
    }

    #[test]
    fn last_axis_label_of_plot_fits_into_figure() {
        let end = 1_000_000.0;
        let lines = Content::Lines(vec![("a".into(), vec![(0.0, Some(1.0)), (end, Some(1.0))])]);
        let spans = Content::Spans(vec![("a".into(), vec![(0.0, end)])]);
        for content in [lines, spans] {
            let mut panel = Panel::new("title", "time (us)", "", content);
            panel.limits.x = Some((0.0, end));
            let svg = Figure { title: "whole".into(), panels: vec![panel] }.svg().expect("a figure");
            let last = svg.split("<text x=\"").find(|text| text.contains(">\n1000000\n")).expect("a number");
            let x: u32 = last.split('"').next().and_then(|x| x.parse().ok()).expect("its middle");
            assert!(x + 7 * CHARACTER_WIDTH / 2 <= PANEL.0, "{x}");
        }
    }

    #[test]
    fn plot_wraps_long_text_between_words() {
        assert_eq!(broken("three words here", 11), ["three words", "here"]);
        assert_eq!(broken("three words here", 10), ["three", "words here"]);
    }
}
