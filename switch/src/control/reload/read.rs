use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use xoff_config::file::{Unread, UnreadCause};
use xoff_config::{Config, ConfigError, Machine};

use super::{NotReloaded, ReloadCommand, Reloader, Source, log, placed};
use crate::machine;

/// Maximum time to wait for the file; shorter than a client waits for the reload.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(5);
const QUEUED_FOR: Duration = Duration::from_secs(1);
const READERS_MAX: usize = 8;

impl Reloader {
    pub(super) async fn read(&mut self) -> Result<Config, NotReloaded> {
        let mut reading = pin!(timeout(READ_WITHIN, self.start_reading()?));
        let read = match timeout(QUEUED_FOR, &mut reading).await {
            Ok(read) => read,
            Err(_) => loop {
                tokio::select! {
                    read = &mut reading => break read,
                    Some(command) = self.commands.recv() => match command {
                        ReloadCommand::Follow => self.follow().await,
                        ReloadCommand::Reload { dry_run, answer } => {
                            let busy = Err(NotReloaded::Busy(self.source.path.clone()));
                            if !dry_run {
                                log(&self.source, &busy);
                            }
                            let _ = answer.send(busy);
                        }
                    },
                }
            },
        };
        match read {
            Ok(Ok(config)) => config,
            Ok(Err(_)) => Err(NotReloaded::Unreadable(
                "the thread that reads the configuration panicked, which is a bug of xoff",
            )),
            Err(_) => Err(NotReloaded::Unanswered(self.source.path.clone())),
        }
    }

    fn start_reading(&self) -> Result<oneshot::Receiver<Result<Config, NotReloaded>>, NotReloaded> {
        if Arc::strong_count(&self.readers) > READERS_MAX {
            return Err(NotReloaded::Unreadable(
                "too many earlier reloads still wait for the file system to return the configuration: restart the switch",
            ));
        }
        let (answer, read) = oneshot::channel();
        let (source, is_waiting) = (self.source.clone(), Arc::clone(&self.readers));
        let running = Arc::new(self.config.clone());
        let work = move || {
            let config = load(&source, running);
            drop(is_waiting);
            let _ = answer.send(config); // fails if the time is over
        };
        let thread = std::thread::Builder::new().name("xoff-reader".into()).spawn(work);
        match thread {
            Ok(_) => Ok(read),
            Err(_) => Err(NotReloaded::Unreadable("cannot start the thread that reads the configuration")),
        }
    }
}

pub(super) fn reach(unread: &Unread) -> &'static str {
    match &unread.why {
        UnreadCause::System(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "; a running switch may read only files in the directory of the file that it was started with, and only with \
             the rights of its user: move the file there"
        }
        _ => "",
    }
}

fn load(Source { path, load }: &Source, running: Arc<Config>) -> Result<Config, NotReloaded> {
    // Do not check memory, which the running switch uses in part, nor devices, because an absent one may come back.
    let machine = Machine { memory: None, running: Some(running), ..machine::here().without_networks() };
    load(path, machine).map_err(|error| match error {
        ConfigError::Read(unread) => NotReloaded::Unread(unread),
        ConfigError::Invalid(invalid) => NotReloaded::Invalid {
            path: path.clone(),
            problems: read_once(path).into_iter().chain(invalid.problems().iter().map(placed)).collect(),
        },
    })
}

fn read_once(path: &Path) -> Option<String> {
    let is_other = path.metadata().is_ok_and(|file| !file.is_file());
    is_other.then(|| {
        "the path leads to a pipe or a device, whose text can be read only once: start the switch with a file, so that a reload can read \
         it again"
            .into()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;

    use xoff_config::file::CONFIGURATION;

    use super::*;

    #[test] // proves: reload
    fn second_reading_of_pipe_is_refused_with_a_reason() {
        let text = "[switch]\nname = \"s\"\n[[port]]\nname = \"a\"\ndevice = \"xa\"\nspeed = \"1G\"\n[[port]]\nname = \"b\"\n\
                    device = \"xb\"\nspeed = \"1G\"\n";
        let reload = |path: PathBuf| {
            let source = Source::new(path, Config::load);
            let running = Config::from_toml("s.toml", text, Machine::default()).unwrap();
            load(&source, Arc::new(running)).map(drop).map_err(|error| error.to_string())
        };
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        assert_eq!(reload(path.clone()), Ok(()), "the first reading of a pipe must succeed");
        let message = reload(path).unwrap_err();
        assert!(message.contains("read only once: start the switch with a file"), "{message}");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"[switch]\n").unwrap();
        let message = reload(file.path().to_owned()).unwrap_err();
        assert!(message.contains("not valid") && !message.contains("pipe"), "{message}");
    }

    #[test]
    fn reload_error_for_unreadable_file_names_directory() {
        let message = |kind: io::ErrorKind| {
            let why = UnreadCause::System(kind.into());
            NotReloaded::Unread(Unread { kind: CONFIGURATION, path: "/dev/zero".into(), why }).to_string()
        };
        let denied = message(io::ErrorKind::PermissionDenied);
        assert!(
            denied.contains("/dev/zero") && denied.contains("files in the directory of the file"),
            "{denied}"
        );
        let absent = message(io::ErrorKind::NotFound);
        assert!(!absent.contains("directory of"), "{absent}");
    }
}
