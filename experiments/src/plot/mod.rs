//! Draws figures of several panels as SVG. A missing value is a gap, or an empty row with a note.

mod draw;
mod style;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::statistics::Spread;

#[derive(Clone, Debug, Default)]
pub struct Figure {
    pub title: String,
    pub panels: Vec<Panel>,
}

#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    pub content: Content,
    pub scale: Scale,
    pub limits: Limits,
    pub absent: Option<&'static str>,
}

impl Panel {
    #[must_use]
    pub fn new(title: &str, x: &str, y: &str, content: Content) -> Panel {
        let [title, x, y] = [title, x, y].map(str::to_owned);
        Panel { title, x, y, content, scale: Scale::Linear, limits: Limits::default(), absent: None }
    }

    #[must_use]
    pub fn over_decades(self) -> Panel {
        Panel { scale: Scale::Decades, ..self }
    }

    #[must_use]
    pub fn within(self, limits: Limits) -> Panel {
        Panel { limits, ..self }
    }

    #[must_use]
    pub fn absent(self, absent: &'static str) -> Panel {
        Panel { absent: Some(absent), ..self }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    #[default]
    Linear,
    Decades,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    pub x: Option<(f64, f64)>,
    pub top: Option<f64>,
}

#[derive(Clone, Debug)]
pub enum Content {
    Lines(Vec<(String, Vec<Point>)>),
    Spreads(Vec<(String, Option<Spread>)>),
    Spans(Vec<(String, Vec<(f64, f64)>)>),
}

/// Point (x, y) of a line; the line has a gap if y is `None`.
pub type Point = (f64, Option<f64>);

#[derive(Debug, thiserror::Error)]
#[error("cannot write the plot: {0}")]
pub struct PlotError(String);

impl PlotError {
    fn at(path: &Path, error: &dyn std::fmt::Display) -> PlotError {
        PlotError(format!("{}: {error}", path.display()))
    }
}

impl Figure {
    /// Checks that `path` ends in .svg and can be written; leaves files unchanged.
    pub fn check_place(path: &Path) -> Result<(), PlotError> {
        if let Some(other) = path.extension().filter(|extension| !extension.eq_ignore_ascii_case("svg")) {
            let (path, other) = (path.display(), other.display());
            return Err(PlotError(format!(
                "{path}: plots are SVG files, not {other}: choose a name that ends in .svg"
            )));
        }
        let opened = match File::create_new(path) {
            Ok(_) => fs::remove_file(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(path),
            Err(error) => Err(error),
        };
        opened.map_err(|error| PlotError::at(path, &error))
    }

    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let svg = self.svg().map_err(|error| PlotError::at(path, &error))?;
        fs::write(path, svg).map_err(|error| PlotError::at(path, &error))
    }

    pub fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| PlotError(error.to_string()))?;
        Ok(self.dashed(svg))
    }
}

/// Checks that a file can be opened for writing. Opens no pipe, because its reader would see the end of the data.
fn open(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.file_type().is_fifo() {
        return Ok(());
    }
    File::options().write(true).open(path).map(drop)
}

pub(crate) fn nice_top(values: impl IntoIterator<Item = f64>) -> f64 {
    let most = values.into_iter().fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn panel(content: Content) -> Panel {
        Panel::new("title", "time (s)", "rate (Mb/s)", content)
    }

    fn svg(panel: Panel) -> String {
        Figure { title: String::new(), panels: vec![panel] }.svg().unwrap()
    }

    #[test] // proves: experiments
    fn plotted_line_has_labelled_gap_at_missing_value() {
        let lines = |middle| {
            let wdrop = vec![(5.0, Some(1.0)), (10.0, middle), (15.0, Some(1.0)), (20.0, Some(1.0))];
            svg(panel(Content::Lines(vec![("wdrop".into(), wdrop)])).absent("none completed"))
        };
        let (whole, broken) = (lines(Some(1.0)), lines(None));
        assert!(!whole.contains("none completed"), "{whole}");
        assert!(broken.contains("wdrop: none completed at 10"), "{broken}");
        let drawn = |svg: &str| svg.matches("stroke-width=\"2\"").count() - 1; // without the legend's
        assert_eq!(
            (drawn(&whole), drawn(&broken)),
            (1, 2),
            "no line may join the points on both sides of a gap"
        );
        assert_eq!(whole.matches("<circle").count(), 4);
        assert_eq!(broken.matches("<circle").count(), 3, "no point may be drawn where nothing was measured");
    }

    #[test] // proves: experiments
    fn plot_shows_both_of_two_identical_lines() {
        let line = || vec![(0.0, Some(1.0)), (1.0, Some(1.0))];
        let svg = svg(panel(Content::Lines(vec![("pfc".into(), line()), ("gfc".into(), line())])));
        let count = |text: &str| svg.matches(text).count();
        assert_eq!(count("stroke-width=\"2\""), 4, "the plot must have two lines and two legend entries");
        assert_eq!(
            count("stroke-dasharray=\"9 7\""),
            2,
            "only the line and the legend entry of the second policy must be dashed"
        );
    }

    #[test] // proves: experiments
    fn plot_row_without_values_shows_only_its_label() {
        let rows = |wdrop| vec![("pfc".to_owned(), Spread::of([1.0, 2.0])), ("wdrop".to_owned(), wdrop)];
        let of = |wdrop| svg(panel(Content::Spreads(rows(wdrop))).absent("none completed"));
        let (some, none) = (of(Spread::of([0.5])), of(None));
        assert!(!some.contains("none completed") && none.contains("none completed"), "{none}");
        let medians = |svg: &str| svg.matches("stroke-width=\"3\"").count();
        assert_eq!((medians(&some), medians(&none)), (2, 1));
    }

    #[test]
    fn plot_panel_without_rows_shows_a_note() {
        let rows = vec![("spine".to_owned(), vec![(1.0, 2.0)])];
        let [some, none] = [rows, Vec::new()].map(|rows| svg(panel(Content::Spans(rows)).absent("nobody")));
        assert!(!some.contains("nobody") && none.contains("nobody"), "{none}");
    }

    #[test]
    fn plot_wraps_title_wider_than_figure() {
        let title = "Deadlock: three switches in a ring, three flows over two wires each, 100 Mb/s lines";
        let panels = vec![panel(Content::Lines(vec![("pfc".into(), vec![(0.0, Some(1.0))])]))];
        let svg = Figure { title: title.into(), panels }.svg().unwrap();
        assert!(
            svg.contains("wires each,") && !svg.contains(title),
            "a title too long for one panel must be wrapped"
        );
    }

    #[test]
    fn figure_shows_titles_units_and_names() {
        let lines = vec![("pfc".to_owned(), vec![(0.0, Some(1.0)), (1.0, Some(2.0))])];
        let spreads = vec![("ofc".to_owned(), Spread::of([1.0, 2.0, 3.0]))];
        let spans = vec![("leaf pauses spine".to_owned(), vec![(0.1, 0.2)])];
        let panels = vec![
            panel(Content::Lines(lines)),
            panel(Content::Spreads(spreads)),
            panel(Content::Spans(spans)),
        ];
        let svg = Figure { title: "the whole".into(), panels }.svg().unwrap();
        for text in ["the whole", "title", "time (s)", "rate (Mb/s)", "pfc", "ofc", "leaf pauses spine"] {
            assert!(svg.contains(text), "the figure must contain {text}");
        }
    }

    #[test]
    fn plot_with_long_policy_names_has_fewer_axis_labels() {
        let rows = |name: &str| svg(panel(Content::Spans(vec![(name.to_owned(), vec![(0.0, 45_000.0)])])));
        let numbers = |svg: &str| svg.matches("000\n").count();
        let [short, long] = ["pfc", "capfc-calibrate-wdrop (lost frames)"].map(|name| numbers(&rows(name)));
        assert!(short > long && long >= 2, "{short} {long}");
    }

    #[test] // proves: experiments
    fn plot_path_check_changes_no_file() {
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
        let picture = refused(&directory.join("p.png")).unwrap();
        assert!(
            picture.contains("plots are SVG files, not png") && picture.contains("ends in .svg"),
            "{picture}"
        );
        assert_eq!(refused(&directory.join("p.SVG")), None);
        assert_eq!(refused(Path::new("/dev/null")), None);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn plot_of_empty_data_or_zeros_is_drawn() {
        let panels = vec![
            panel(Content::Lines(vec![("a".into(), vec![(1.0, Some(0.0))])])),
            panel(Content::Lines(vec![("a".into(), vec![(1.0, None)])])),
            panel(Content::Spreads(vec![("a".into(), Spread::of([0.0]))])),
            panel(Content::Spreads(vec![("a".into(), None)])),
            panel(Content::Spans(vec![])),
        ];
        assert!(Figure { title: String::new(), panels }.svg().is_ok());
        assert!(Figure::default().svg().is_ok());
    }
}
