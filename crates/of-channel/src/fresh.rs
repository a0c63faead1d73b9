//! Files of TLS that are read anew when they change: a certificate is renewed, or one is revoked, without a restart.
//!
//! New connections are judged by what the files hold now, looked at once a second at most. Files that cannot be used leave in
//! force what was read before, and the log says why, once for each change. Connections that are there stay.

use crate::keys::{TlsError, TlsFiles};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::verifier::{Judge, Shown};

/// Files are looked at so often at most.
const LOOK: Duration = Duration::from_secs(1);

/// A file as it is now: which, how long, since when. None of one that is not there.
type Version = Option<(u64, u64, i64, i64)>;

fn version(path: &PathBuf) -> Version {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// What was read of files.
struct Read<T> {
    versions: Vec<Version>,
    looked: Instant,
    value: Arc<T>,
}

/// What is read of files, and read anew when they change.
pub(crate) struct Fresh<T> {
    files: TlsFiles,
    load: fn(&TlsFiles) -> Result<T, TlsError>,
    read: Mutex<Read<T>>,
}

impl<T> Fresh<T> {
    /// Reads them.
    pub(crate) fn new(
        files: &TlsFiles,
        load: fn(&TlsFiles) -> Result<T, TlsError>,
    ) -> Result<Fresh<T>, TlsError> {
        // Before they are read: what changes meanwhile is read once more.
        let versions = versions(files);
        let read = Read { versions, looked: Instant::now(), value: Arc::new(load(files)?) };
        Ok(Fresh { files: files.clone(), load, read: Mutex::new(read) })
    }

    /// What they hold now.
    pub(crate) fn now(&self) -> Arc<T> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.looked.elapsed() >= LOOK {
            read.looked = Instant::now();
            let now = versions(&self.files);
            if now != read.versions {
                read.versions = now;
                match (self.load)(&self.files) {
                    Ok(value) => {
                        let file = self.files.certificate.display();
                        tracing::info!(%file, "TLS: files have changed and are in force for new connections");
                        read.value = Arc::new(value);
                    }
                    Err(error) => {
                        tracing::error!(%error, "TLS: files have changed and cannot be used; those before are in force");
                    }
                }
            }
        }
        read.value.clone()
    }
}

fn versions(files: &TlsFiles) -> Vec<Version> {
    let own = [&files.private_key, &files.certificate].into_iter();
    own.chain(&files.ca_cert).chain(&files.crl).map(version).collect()
}

impl<T> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fresh({:?})", self.files)
    }
}

/// One's own certificate.
#[derive(Debug)]
pub(crate) struct Own(pub(crate) Fresh<CertifiedKey>);

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now())
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Who judges those who connect.
#[derive(Debug)]
pub(crate) struct Clients(pub(crate) Fresh<Arc<dyn ClientCertVerifier>>);

impl ClientCertVerifier for Clients {
    /// Whom is trusted may change: nobody is named.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.now().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.now().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.now().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.now().supported_verify_schemes()
    }
}

impl<J: Judge> Judge for Fresh<J> {
    fn judge(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        self.now().judge(shown)
    }
}
