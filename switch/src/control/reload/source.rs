use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xoff_config::{Config, ConfigError, Machine};

#[derive(Clone)]
pub struct Source {
    pub path: PathBuf,
    pub(super) load: Arc<Load>,
}

pub(super) type Load = dyn Fn(&Path, Machine) -> Result<Config, ConfigError> + Send + Sync;

impl Source {
    pub fn new(
        path: PathBuf,
        load: impl Fn(&Path, Machine) -> Result<Config, ConfigError> + Send + Sync + 'static,
    ) -> Source {
        Source { path, load: Arc::new(load) }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}
