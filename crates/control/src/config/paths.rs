//! What a configuration names outside itself: ports, files, folders, sockets.

use super::Config;
use port::kind::Attached;
use std::path::{Path, PathBuf};

impl Config {
    /// What ports are attached to, of all bridges.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attached> {
        let others = self.bridges.iter().flat_map(|one| &one.ports);
        let first = self.ports.iter().map(|spec| &spec.attachment);
        first.chain(others.map(|port| &port.attachment))
    }

    /// How controllers are spoken to, for all bridges.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &of_channel::Config> {
        std::iter::once(&self.channel).chain(self.bridges.iter().map(|one| &one.bridge.channel))
    }

    /// Files that are read at the start, and some again later.
    pub(crate) fn files_read(&self) -> impl Iterator<Item = &Path> {
        let entries = self.flows.iter().chain(&self.groups).chain(&self.meters);
        let program = self.p4.iter().chain(&self.entries);
        let tls = self.channels().filter_map(|channel| channel.tls.as_ref());
        let tls = tls.flat_map(|tls| {
            [Some(&tls.private_key), Some(&tls.certificate), tls.ca_cert.as_ref(), tls.crl.as_ref()]
                .into_iter()
                .flatten()
        });
        let services = self.services.iter().flat_map(|text| text.split_ascii_whitespace());
        let services = services.filter_map(|word| {
            let (key, value) = word.split_once('=')?;
            (key.ends_with("file") || key == "module").then(|| Path::new(value))
        });
        let page = self.page.iter().filter_map(|page| page.reports.as_deref());
        let group = self.replication.iter().flat_map(|group| group.server.files());
        let group = group.chain(self.fleet.iter().flat_map(|fleet| fleet.place.server.files()));
        let entries = entries.map(PathBuf::as_path).chain(group);
        let program = program.map(PathBuf::as_path);
        entries.chain(program).chain(tls.map(PathBuf::as_path)).chain(services).chain(page)
    }

    /// Files that are written, and sockets.
    pub(crate) fn files_written(&self) -> impl Iterator<Item = PathBuf> {
        let snoops = self.channels().filter_map(|channel| channel.snoop.clone());
        let ctl = self.ctl.clone().unwrap_or_else(crate::dial::default_path);
        let own = [self.state.clone(), self.log_changes.clone(), Some(ctl)];
        own.into_iter().flatten().chain(snoops)
    }

    /// Folders that are written, and whether they are made if they are not there.
    pub(crate) fn folders_written(&self) -> impl Iterator<Item = (&Path, bool)> {
        let kept = self.persist.iter().map(|place| (place.folder.as_path(), true));
        let fleet = self.fleet.iter().map(|fleet| (fleet.place.cache.as_path(), true));
        kept.chain(fleet).chain(self.confine_paths.iter().map(|path| (path.as_path(), false)))
    }
}
