//! How the engine is reached: `server=`, `ca=`, `certificate=`, `key=`, `credentials=`.

use std::path::{Path, PathBuf};

/// How the engine is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Server {
    pub(crate) urls: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) credentials: Option<PathBuf>,
}

impl Server {
    /// Files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(&self.credentials).chain(identity).map(PathBuf::as_path)
    }
}

/// The words of it, as they are read.
#[derive(Default)]
pub(super) struct ServerWords {
    server: Server,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl ServerWords {
    /// Takes a word; false if it is about something else.
    pub(super) fn take(&mut self, name: &str, value: &str) -> bool {
        match name {
            "server" => self.server.urls = value.split(',').map(str::to_owned).collect(),
            "ca" => self.server.ca = Some(value.into()),
            "certificate" => self.certificate = Some(value.into()),
            "key" => self.key = Some(value.into()),
            "credentials" => self.server.credentials = Some(value.into()),
            _ => return false,
        }
        true
    }

    /// All of them.
    pub(super) fn done(self) -> Result<Server, String> {
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("certificate= and key= go together".to_owned()),
        };
        Ok(Server { identity, ..self.server })
    }
}
