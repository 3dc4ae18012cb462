use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use xoff_wire::units::Bytes;

use crate::quantity;
use crate::visible::visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// Name of this kind of file in messages, with its article, such as `the configuration`.
    pub name: &'static str,
    pub help: &'static str,
    pub bytes_max: Bytes,
}

pub const WRITTEN_MAX: Bytes = Bytes(8 << 20);
pub const DATA_MAX: Bytes = Bytes(1 << 30);
const DEVICE_MAX: Bytes = Bytes(1 << 20);

pub const CONFIGURATION: FileKind = FileKind {
    name: "the configuration",
    help: "give the path of a TOML file; config/examples has some to start from",
    bytes_max: WRITTEN_MAX,
};

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot read {} {}: {why}", kind.name, visible(&path.display().to_string()))]
#[diagnostic(help("{}", kind.help))]
pub struct Unread {
    pub kind: FileKind,
    pub path: PathBuf,
    pub why: UnreadCause,
}

#[derive(Debug, thiserror::Error)]
pub enum UnreadCause {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("the path is a directory, and has to be a file")]
    Directory,
    #[error("the file is longer than the maximum of {}", quantity::bytes(*.0))]
    TooLong(Bytes),
    #[error("the file is not UTF-8 text: line {line}, column {column} has byte {byte:#04x}")]
    NotText {
        line: usize,
        /// Column in bytes; line and column begin at 1.
        column: usize,
        byte: u8,
    },
}

/// Reads a text file. Blocks until the writer of a pipe closes it, and perhaps forever if the file's network
/// server is unreachable.
pub fn read_text(path: &Path, kind: FileKind) -> Result<String, Unread> {
    read(path, kind.bytes_max).map_err(|why| Unread { kind, path: path.to_owned(), why })
}

fn read(path: &Path, bytes_max: Bytes) -> Result<String, UnreadCause> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(UnreadCause::Directory);
    }
    let is_device = is_device(&found);
    let bytes_max = if is_device { bytes_max.min(DEVICE_MAX) } else { bytes_max };
    if found.len() > bytes_max.0 {
        return Err(UnreadCause::TooLong(bytes_max));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.0 + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max.0 {
        return Err(UnreadCause::TooLong(bytes_max));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        UnreadCause::NotText {
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            column: before.len() - line_start + 1,
            byte: rest.first().copied().unwrap_or_default(),
        }
    })
}

#[cfg(unix)]
fn is_device(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    found.file_type().is_char_device() || found.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

// Tests for SPECIFICATION.md: configuration
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    const SMALL: FileKind = FileKind { name: "the list", help: "give another file", bytes_max: Bytes(10) };

    fn why(path: &Path, kind: FileKind) -> String {
        read_text(path, kind).unwrap_err().to_string()
    }

    #[test]
    fn file_at_size_limit_is_read_and_longer_file_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(read_text(file.path(), SMALL).unwrap(), "0123456789");
        file.write_all(b"a").unwrap();
        let error = read_text(file.path(), SMALL).unwrap_err();
        assert!(matches!(error.why, UnreadCause::TooLong(Bytes(10))), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "cannot read the list {}: the file is longer than the maximum of 10B",
                file.path().display()
            )
        );
    }

    #[test]
    fn endless_device_file_is_refused() {
        let error = why("/dev/zero".as_ref(), FileKind { bytes_max: DATA_MAX, ..SMALL });
        assert!(error.ends_with("/dev/zero: the file is longer than the maximum of 1MiB"), "{error}");
        assert_eq!(read_text("/dev/null".as_ref(), SMALL).unwrap(), "");
    }

    #[test]
    fn file_above_size_limit_is_refused_before_reading() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 30).unwrap();
        assert!(why(file.path(), CONFIGURATION).contains("the file is longer than the maximum of 8MiB"));
    }

    #[test]
    fn directory_and_non_text_file_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(why(directory.path(), SMALL).ends_with("the path is a directory, and has to be a file"));
        let path = directory.path().join("\u{1b}[31m");
        fs::write(&path, b"ab\n\nc\xff").unwrap();
        let error = why(&path, SMALL);
        assert!(
            error.ends_with("␛[31m: the file is not UTF-8 text: line 3, column 2 has byte 0xff"),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
        assert!(why(&path, SMALL).ends_with("No such file or directory (os error 2)"));
    }

    #[test]
    fn configuration_pipe_is_read_until_its_writer_closes_it() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let text = std::thread::scope(|scope| {
            let text = scope.spawn(|| read_text(path.as_ref(), SMALL));
            for piece in ["abc", "def"] {
                writer.write_all(piece.as_bytes()).unwrap();
            }
            drop(writer);
            text.join().unwrap()
        });
        assert_eq!(text.unwrap(), "abcdef");
    }
}
