//! The authority's certificate of the first controller that is reached (Open vSwitch's `bootstrap_ca_cert`).
//!
//! While the file is not there, a connection to a controller ends in the handshake: the last certificate of the chain
//! that the controller shows is kept in the file, and nothing else is said to it. From the next attempt on that
//! authority must have signed what is shown. So whoever answers first is believed once, which is what was asked for.

use crate::keys::TlsFiles;
use crate::verifier::{Judge, Shown};
use rustls::client::danger::ServerCertVerified;
use rustls::{ClientConfig, Error};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::TlsConnector;

/// Keeps the authority's certificate, and refuses the connection.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    file: PathBuf,
}

impl Bootstrap {
    pub(crate) fn new(file: &Path) -> Bootstrap {
        Bootstrap { file: file.to_owned() }
    }
}

/// A certificate as PEM has it.
fn pem(certificate: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = Vec::with_capacity(certificate.len() * 4 / 3 + 4);
    for group in certificate.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            digits.push(if i <= group.len() { digit } else { b'=' });
        }
    }
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in digits.chunks(64) {
        text.extend(line.iter().map(|digit| char::from(*digit)));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

impl Judge for Bootstrap {
    fn judge(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        let file = self.file.display();
        let Some(authority) = shown.intermediates.last() else {
            return Err(Error::General(format!(
                "it shows no authority's certificate behind its own that could be kept in {file}"
            )));
        };
        let mut options = OpenOptions::new();
        // Never over one that is there.
        let written = options
            .write(true)
            .create_new(true)
            .open(&self.file)
            .and_then(|mut to| to.write_all(pem(authority).as_bytes()));
        Err(Error::General(match written {
            Ok(()) => {
                tracing::info!(file = %file, "the authority's certificate that the controller shows is trusted from now on");
                format!("its authority's certificate is kept in {file}; the next attempt trusts it")
            }
            Err(error) => format!("its authority's certificate cannot be kept in {file}: {error}"),
        }))
    }
}

/// How controllers are reached: by what the first one shows, until it has shown it.
pub(crate) struct Connector {
    first: TlsConnector,
    /// The files, while the authority's was not there, and what they come to since it is.
    then: Option<(TlsFiles, Mutex<Option<TlsConnector>>)>,
}

impl Connector {
    pub(crate) fn new(config: ClientConfig, bootstraps: Option<TlsFiles>) -> Connector {
        let then = bootstraps.map(|files| (files, Mutex::default()));
        Connector { first: TlsConnector::from(Arc::new(config)), then }
    }

    /// The authority's certificate was not there.
    pub(crate) fn bootstraps(&self) -> bool {
        self.then.is_some()
    }

    /// As it is now.
    pub(crate) fn now(&self) -> TlsConnector {
        let Some((files, then)) = &self.then else { return self.first.clone() };
        let mut then = then.lock().unwrap_or_else(PoisonError::into_inner);
        let there = files.ca_cert.as_ref().is_some_and(|file| file.exists());
        if then.is_none() && there {
            match files.client() {
                Ok(config) => *then = Some(TlsConnector::from(config)),
                Err(error) => tracing::warn!(%error, "the authority's certificate is of no use"),
            }
        }
        then.clone().unwrap_or_else(|| self.first.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::Verifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};

    fn tests_file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
    }

    fn certificate(name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(tests_file(name)).expect("it is there")
    }

    #[test]
    fn what_the_first_controller_shows_is_kept_and_not_written_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("ca.pem");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let bootstrap = Verifier::new(Bootstrap::new(&file), provider);
        let (own, name) = (certificate("controller-cert.pem"), crate::tls::server_name("any"));
        let shown = |chain: &[CertificateDer<'_>]| {
            let seen = bootstrap.verify_server_cert(&own, chain, &name, &[], UnixTime::now());
            seen.expect_err("the connection ends").to_string()
        };
        assert!(shown(&[]).contains("shows no authority's certificate"));
        assert!(!file.exists());
        assert!(shown(&[certificate("ca.pem")]).contains("the next attempt trusts it"));
        assert_eq!(CertificateDer::from_pem_file(&file).expect("PEM"), certificate("ca.pem"));
        assert!(shown(&[certificate("old-authority.pem")]).contains("cannot be kept"));
        assert_eq!(CertificateDer::from_pem_file(&file).expect("PEM"), certificate("ca.pem"));
    }

    #[test]
    fn the_connector_is_another_once_the_certificate_is_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("ca.pem");
        let files = TlsFiles {
            private_key: tests_file("switch-privkey.pem"),
            certificate: tests_file("switch-cert.pem"),
            ca_cert: Some(file.clone()),
            bootstrap: true,
            crl: None,
        };
        let tls = crate::tls::Tls::load(&files).expect("keys that fit");
        let connector = tls.connector.expect("controllers are reached");
        assert!(connector.bootstraps());
        let first = connector.now();
        assert!(Arc::ptr_eq(connector.now().config(), first.config()));
        std::fs::copy(tests_file("ca.pem"), &file).expect("a copy");
        let then = connector.now();
        assert!(!Arc::ptr_eq(then.config(), first.config()));
        assert!(Arc::ptr_eq(connector.now().config(), then.config()));
    }
}
