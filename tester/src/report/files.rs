use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use xoff_config::file::{DATA_MAX, FileKind, Unread, read_text};
use xoff_config::visible;

use super::Report;

const REPORT: FileKind = FileKind {
    name: "the report",
    help: "give the file report.json of a directory that `xoff test FILE --report DIRECTORY` wrote",
    bytes_max: DATA_MAX,
};

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot write the report: {}: {why}", visible(&path.display().to_string()))]
#[diagnostic(help("give a directory that this user can write to"))]
pub struct WriteError {
    path: PathBuf,
    why: io::Error,
}

#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ReadError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Unread(#[from] Unread),
    #[error("{} is no report of `xoff test`: {why}", visible(&path.display().to_string()))]
    #[diagnostic(help("{}", REPORT.help))]
    NoReport { path: PathBuf, why: serde_json::Error },
}

impl Report {
    /// Writes `report.json`, `report.txt` and `report.html` to a directory, created if missing. Replaces an old file only by a complete new
    /// one.
    pub fn write(&self, directory: &Path) -> Result<(), WriteError> {
        fs::create_dir_all(directory).map_err(|why| WriteError { path: directory.to_owned(), why })?;
        let files = [
            ("report.json", self.to_json()),
            ("report.txt", self.to_text()),
            ("report.html", self.to_html()),
        ];
        for (name, content) in files {
            let path = directory.join(name);
            replace(&path, &content).map_err(|why| WriteError { path, why })?;
        }
        Ok(())
    }

    /// Returns the report as JSON, from which [`Report::read`] makes an equal report.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("maps of a report must have strings as keys");
        json + "\n"
    }

    /// Reads the report from a JSON file, or from the `report.json` of a directory.
    pub fn read(path: &Path) -> Result<Report, ReadError> {
        let path = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
        let text = read_text(&path, REPORT)?;
        serde_json::from_str(&text).map_err(|why| ReadError::NoReport { path, why })
    }
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    let new = path.with_extension(format!("new.{}", std::process::id()));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new); // the first error is the one to report
    }
    renamed
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::report;
    use super::*;

    #[test]
    fn report_files_are_read_back_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().join("new/out");
        let report = report();
        report.write(&into).unwrap();
        for path in [&into, &into.join("report.json")] {
            // Compare debug texts, because missing values are NaN, which differs from itself.
            assert_eq!(format!("{:?}", Report::read(path).unwrap()), format!("{report:?}"));
        }
        fs::write(into.join("report.txt"), "old").unwrap();
        report.write(&into).unwrap();
        assert_eq!(fs::read_to_string(into.join("report.txt")).unwrap(), report.to_text());
        let mut names: Vec<_> = fs::read_dir(&into).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["report.html", "report.json", "report.txt"]);
    }

    #[test]
    fn report_error_names_the_unusable_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("dut.toml");
        fs::write(&file, "[device]\n").unwrap();
        let error = Report::read(&file).unwrap_err();
        assert!(error.to_string().contains("dut.toml is no report of `xoff test`: "), "{error}");
        fs::write(&file, "{\"version\": \"1\"}").unwrap();
        let error = Report::read(&file).unwrap_err().to_string();
        assert!(error.contains("missing field"), "{error}");
        let error = Report::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("report.json"), "{error}");
        let error = report().write(&file.join("out")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write the report: ") && error.contains("dut.toml/out"), "{error}");
        fs::create_dir(directory.path().join("report.txt")).unwrap();
        let error = report().write(directory.path()).unwrap_err().to_string();
        assert!(error.contains("report.txt: "), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "a temporary file remains");
    }
}
