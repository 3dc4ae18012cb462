//! A figure of panels, as SVG: lines over a quantity, spreads by name, spans of time.
//!
//! Colours belong to names: a policy has the same one in every panel, and the legend below explains it
//! once.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::Spread;

/// What people look at.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// What it shows, and under which conditions.
    pub title: String,
    /// Drawn in rows.
    pub panels: Vec<Panel>,
}

/// One diagram.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What is on the horizontal axis, with its unit.
    pub x: String,
    /// What is on the vertical axis, with its unit; not drawn where that has names.
    pub y: String,
    /// What is drawn.
    pub content: Content,
    /// How far the axes go.
    pub limits: Limits,
}

/// Ends of axes, where panels are to be compared; without, what is drawn decides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of the horizontal axis.
    pub x: Option<(f64, f64)>,
    /// The upper end of the vertical axis, where that is a quantity.
    pub top: Option<f64>,
}

/// What is drawn in a panel.
#[derive(Clone, Debug)]
pub enum Content {
    /// A line for each name, through (x, y).
    Lines(Vec<(String, Vec<(f64, f64)>)>),
    /// A box for each name: extremes, quartiles, median.
    Spreads(Vec<(String, Spread)>),
    /// A row for each name with spans (from, to).
    Spans(Vec<(String, Vec<(f64, f64)>)>),
}

/// A figure that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the plot: {0}")]
pub struct PlotError(String);

impl PlotError {
    fn at(path: &Path, error: &dyn std::fmt::Display) -> PlotError {
        PlotError(format!("{}: {error}", path.display()))
    }
}

const PANEL: (u32, u32) = (520, 330);
const COLUMNS: usize = 2;
const TITLE_TEXT_HEIGHT: i32 = 17;
const TITLE_LINE_HEIGHT: i32 = 22;
/// A title is broken so that this much for each character fits; letters of this font are narrower on average.
const TITLE_CHARACTER_WIDTH: u32 = 9;
const LEGEND_ROW_HEIGHT: u32 = 22;
const LEGEND_COLUMN_WIDTH: u32 = 165;
const FONT: &str = "sans-serif";
const TEXT_HEIGHT: i32 = 13;

/// Colours that differ for the colour-blind too: Okabe and Ito's, and four more.
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
    RGBColor(150, 150, 0),
    RGBColor(120, 70, 30),
    RGBColor(130, 130, 130),
    RGBColor(110, 0, 160),
    RGBColor(160, 200, 60),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Figure {
    /// Whether a figure can be written there, to be asked before it costs minutes to make one. Leaves what
    /// there is as it is.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn check_place(path: &Path) -> Result<(), PlotError> {
        let opened = match File::create_new(path) {
            Ok(_) => fs::remove_file(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(path),
            Err(error) => Err(error),
        };
        opened.map_err(|error| PlotError::at(path, &error))
    }

    /// Writes it as SVG.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let svg = self.svg().map_err(|error| PlotError::at(path, &error))?;
        fs::write(path, svg).map_err(|error| PlotError::at(path, &error))
    }

    /// The text of the SVG file.
    ///
    /// # Errors
    /// Where a panel cannot be drawn.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| PlotError(error.to_string()))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let names = self.names();
        let columns = self.panels.len().clamp(1, COLUMNS);
        let width = PANEL.0 * u32::try_from(columns)?;
        let rows = self.panels.len().div_ceil(columns);
        let panels_height: u32 = (0..rows).map(|row| self.row_height(row * columns, columns)).sum();
        let per_legend_row = usize::try_from(width / LEGEND_COLUMN_WIDTH)?;
        let legend_rows = u32::try_from(self.legend(&names).len().div_ceil(per_legend_row))?;
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
        for (place, name) in self.legend(&names).into_iter().enumerate() {
            let x = 14 + i32::try_from(place % per_legend_row * usize::try_from(LEGEND_COLUMN_WIDTH)?)?;
            let y = 4 + i32::try_from(place / per_legend_row * usize::try_from(LEGEND_ROW_HEIGHT)?)?;
            legend.draw(&Rectangle::new([(x, y), (x + 16, y + 11)], colour(&names, name).filled()))?;
            legend.draw(&Text::new(name.to_owned(), (x + 22, y), (FONT, TEXT_HEIGHT)))?;
        }
        root.present()?;
        Ok(())
    }

    /// Panels with many names are higher.
    fn row_height(&self, first: usize, columns: usize) -> u32 {
        let names = |panel: &Panel| match &panel.content {
            Content::Lines(_) => 0,
            Content::Spreads(rows) => rows.len(),
            Content::Spans(rows) => rows.len(),
        };
        let most = self.panels[first..].iter().take(columns).map(names).max().unwrap_or(0);
        PANEL.1.max(90 + 22 * u32::try_from(most).unwrap_or(0))
    }

    /// All names, each once, in the order in which they come.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.panels.iter().flat_map(Panel::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Names of lines; those of boxes and spans stand beside them.
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

fn colour(names: &[&str], name: &str) -> RGBColor {
    let place = names.iter().position(|other| *other == name).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
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

    fn draw(&self, area: &Area<'_>, names: &[&str]) -> Drawn {
        match &self.content {
            Content::Lines(lines) => self.draw_lines(area, names, lines),
            Content::Spreads(rows) => self.draw_spreads(area, names, rows),
            Content::Spans(rows) => self.draw_spans(area, names, rows),
        }
    }

    fn draw_lines(&self, area: &Area<'_>, names: &[&str], lines: &[(String, Vec<(f64, f64)>)]) -> Drawn {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let (from, to) = self.limits.x.unwrap_or_else(|| ends(points().map(|point| point.0)));
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let top = self.limits.top.unwrap_or_else(|| nice_top(top));
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(62)
            .build_cartesian_2d(from..to, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .label_style((FONT, TEXT_HEIGHT))
            .light_line_style(WHITE)
            .x_label_formatter(&short)
            .y_label_formatter(&short)
            .draw()?;
        for (name, points) in lines {
            let colour = colour(names, name);
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            if points.len() <= 12 {
                chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
            }
        }
        Ok(())
    }

    fn draw_spreads(&self, area: &Area<'_>, names: &[&str], rows: &[(String, Spread)]) -> Drawn {
        let top = rows.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max);
        let labels: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let mut chart = self.chart_of_rows(area, 0.0..nice_top(top), &labels)?;
        for (row, (name, spread)) in rows.iter().enumerate() {
            let colour = colour(names, name);
            let at = middle(row, rows.len());
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

    fn draw_spans(&self, area: &Area<'_>, names: &[&str], rows: &[(String, Vec<(f64, f64)>)]) -> Drawn {
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
            chart.draw_series(spans.iter().map(bar))?;
        }
        Ok(())
    }

    /// A chart whose vertical axis has names, the first at the top; see [`middle`].
    fn chart_of_rows<'a, 'b>(
        &self,
        area: &'b Area<'a>,
        x: Range<f64>,
        labels: &[&str],
    ) -> Result<Rows<'a, 'b>, Box<dyn std::error::Error>> {
        let longest = labels.iter().map(|label| label.len()).max().unwrap_or(0);
        let count = labels.len().max(1);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(16 + 7 * u32::try_from(longest)?)
            .build_cartesian_2d(x, -0.5..count as f64 - 0.5)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .label_style((FONT, TEXT_HEIGHT))
            .light_line_style(WHITE)
            .disable_y_mesh()
            .y_labels(count + 1)
            .x_label_formatter(&short)
            .y_label_formatter(&|place| {
                let row = (0..labels.len()).find(|&row| (middle(row, count) - place).abs() < 1e-6);
                row.map_or_else(String::new, |row| labels[row].to_owned())
            })
            .draw()?;
        Ok(chart)
    }
}

type Rows<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Where row `row` of `count` lies: the first at the top.
fn middle(row: usize, count: usize) -> f64 {
    (count - row) as f64 - 1.0
}

/// Lines of at most `most` characters, broken between words.
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

/// From the least to the most, never empty.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (from, to) = values.fold((f64::MAX, f64::MIN), |(from, to), value| (from.min(value), to.max(value)));
    match (from, to) {
        (from, to) if from < to => (from, to),
        (from, to) if from == to => (from - 0.5, to + 0.5),
        _ => (0.0, 1.0),
    }
}

/// Opens what exists, and closes it. A pipe is left alone: its reader would take that for the end.
fn open(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.file_type().is_fifo() {
        return Ok(());
    }
    File::options().write(true).open(path).map(drop)
}

/// A little above the most.
pub(super) fn nice_top(most: f64) -> f64 {
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

/// A number on an axis.
#[allow(clippy::trivially_copy_pass_by_ref)] // as plotters calls it
fn short(value: &f64) -> String {
    if *value != 0.0 && value.abs() < 10.0 && value.fract() != 0.0 {
        let text = format!("{value:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{value:.0}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn panel(content: Content) -> Panel {
        let (x, y) = ("time (s)".into(), "rate (Mb/s)".into());
        Panel { title: "title".into(), x, y, content, limits: Limits::default() }
    }

    #[test]
    fn a_title_is_broken_where_the_figure_ends() {
        assert_eq!(broken("three words here", 11), ["three words", "here"]);
        assert_eq!(broken("three words here", 10), ["three", "words here"]);
        let title = "Deadlock: three switches in a ring, three flows of two wires each, 100 Mb/s lines";
        let panels = vec![panel(Content::Lines(vec![("pfc".into(), vec![(0.0, 1.0)])]))];
        let svg = Figure { title: title.into(), panels }.svg().unwrap();
        assert!(svg.contains("wires each,") && !svg.contains(title), "one panel is too narrow for it");
    }

    #[test]
    fn a_figure_shows_titles_units_and_names() {
        let lines = vec![("pfc".to_owned(), vec![(0.0, 1.0), (1.0, 2.0)])];
        let spreads = vec![("ofc".to_owned(), Spread::of([1.0, 2.0, 3.0]))];
        let spans = vec![("leaf pauses spine".to_owned(), vec![(0.1, 0.2)])];
        let panels = vec![
            panel(Content::Lines(lines)),
            panel(Content::Spreads(spreads)),
            panel(Content::Spans(spans)),
        ];
        let svg = Figure { title: "the whole".into(), panels }.svg().unwrap();
        for text in ["the whole", "title", "time (s)", "rate (Mb/s)", "pfc", "ofc", "leaf pauses spine"] {
            assert!(svg.contains(text), "{text} is not in the figure");
        }
    }

    #[test]
    fn a_place_for_a_figure_is_checked_and_left_as_it_is() {
        let directory = std::env::temp_dir().join(format!("xoff-plot-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let refused = |path: &Path| Figure::check_place(path).err().map(|error| error.to_string());
        let (new, old) = (directory.join("new.svg"), directory.join("old.svg"));
        fs::write(&old, "kept").unwrap();
        assert_eq!(refused(&new), None);
        assert_eq!(refused(&old), None);
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        for nowhere in [&directory, &directory.join("missing/new.svg"), Path::new("/proc/new.svg")] {
            let message = refused(nowhere).unwrap();
            assert!(
                message.starts_with(&format!("cannot write the plot: {}: ", nowhere.display())),
                "{message}"
            );
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn nothing_and_all_zero_are_drawn_too() {
        let panels = vec![
            panel(Content::Lines(vec![("a".into(), vec![(1.0, 0.0)])])),
            panel(Content::Spreads(vec![("a".into(), Spread::default())])),
            panel(Content::Spans(vec![])),
        ];
        assert!(Figure { title: String::new(), panels }.svg().is_ok());
        assert!(Figure::default().svg().is_ok());
    }
}
