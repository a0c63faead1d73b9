//! TLS, as Open vSwitch's users know it: a private key, a certificate, and the certificate of the
//! authority that signed those of the other side. They are read anew when they change ([`fresh`](crate::fresh)).
//!
//! With an authority, both sides must show a certificate that it signed; names in certificates are
//! not looked at, as controllers and switches are told apart by who signed them (ovs-pki(8)).
//! Without one a listener asks for no certificate, and no connection is made: who answers could be
//! anybody. TLS 1.2 and 1.3; the cryptography is rustls's, with ring.

use crate::bootstrap::{Bootstrap, Connector};
use crate::fresh::{Clients, Fresh, Own};
use crate::keys::{TlsError, TlsFiles, in_words, is_of_authority};
use crate::verifier::{Judge, Shown, Verifier};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Both sides of TLS.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// None without an authority.
    pub(crate) connector: Option<Connector>,
    /// The switch's own certificate is an authority's: others may refuse it.
    pub(crate) own_is_authority: bool,
}

/// Why a connection has no TLS, in words.
pub(crate) fn trouble(error: &std::io::Error) -> String {
    match in_words(error) {
        Some(words) => format!("the other side's certificate: {words}"),
        None => error.to_string(),
    }
}

impl TlsFiles {
    /// What one who connects needs, for who speaks OpenFlow without this crate's channel.
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let connector = Tls::load(self)?.connector;
        let path = self.certificate.clone();
        let text =
            "without an authority no connection is made: who answers could be anybody".to_string();
        let connector = connector.ok_or(TlsError::Authority { path, text })?;
        Ok(connector.now().config().clone())
    }

    /// What one who listens needs.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        Ok(Tls::load(self)?.acceptor.config().clone())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "a certificate was expected";
    let pem = |source| TlsError::Pem { path: path.to_path_buf(), what, source };
    let all = CertificateDer::pem_file_iter(path).map_err(pem)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(pem)?;
    if all.is_empty() { Err(TlsError::Empty(path.to_path_buf())) } else { Ok(all) }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// One's own certificate with its key.
fn own(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.private_key).map_err(|source| TlsError::Pem {
        path: files.private_key.clone(),
        what: "a private key was expected",
        source,
    })?;
    let refused = |source| TlsError::Refused { path: files.certificate.clone(), source };
    CertifiedKey::from_der(chain, key, &provider()).map_err(refused)
}

/// The authorities.
fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let refused = |source| TlsError::Refused { path: path.to_path_buf(), source };
        roots.add(certificate).map_err(refused)?;
    }
    Ok(Arc::new(roots))
}

/// Lists of what authorities have revoked.
fn revoked(files: &TlsFiles) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let Some(path) = &files.crl else { return Ok(Vec::new()) };
    let what = "a list of revoked certificates was expected";
    let pem = |source| TlsError::Pem { path: path.clone(), what, source };
    let all = CertificateRevocationListDer::pem_file_iter(path).map_err(pem)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(pem)?;
    match all.is_empty() {
        true => Err(TlsError::Authority {
            path: path.clone(),
            text: "holds no list of revoked certificates (X509 CRL) in PEM".to_owned(),
        }),
        false => Ok(all),
    }
}

/// Where there is no authority, nobody is judged.
fn authority_of(files: &TlsFiles) -> Result<&Path, TlsError> {
    let none = || TlsError::Authority {
        path: files.certificate.clone(),
        text: "there is no authority's certificate".to_owned(),
    };
    files.ca_cert.as_deref().ok_or_else(none)
}

fn authority(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::Authority { path: path.to_path_buf(), text: error.to_string() }
}

/// Judges those who connect. What an authority without a list has signed is not taken for revoked.
fn clients(files: &TlsFiles) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let path = authority_of(files)?;
    WebPkiClientVerifier::builder_with_provider(roots(path)?, provider())
        .with_crls(revoked(files)?)
        .allow_unknown_revocation_status()
        .build()
        .map_err(|e| authority(path, &e))
}

/// Judges those to whom a connection is made.
fn servers(files: &TlsFiles) -> Result<SignedBy, TlsError> {
    let path = authority_of(files)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(path)?, provider())
        .with_crls(revoked(files)?)
        .allow_unknown_revocation_status()
        .build();
    verifier.map(SignedBy).map_err(|e| authority(path, &e))
}

impl Tls {
    /// Reads the files, which are read anew when they change.
    pub(crate) fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        let refused = |source| TlsError::Refused { path: files.certificate.clone(), source };
        let is_missing = |path: &&PathBuf| files.bootstrap && !path.exists();
        let bootstrap = files.ca_cert.as_ref().filter(is_missing);
        let has_authority = files.ca_cert.is_some() && bootstrap.is_none();
        let certificate = Arc::new(Own(Fresh::new(files, own)?));
        let own_is_authority = is_authority(&certificate.0.now().cert[0], provider());
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let server = match has_authority {
            false => server.with_no_client_auth(),
            true => {
                server.with_client_cert_verifier(Arc::new(Clients(Fresh::new(files, clients)?)))
            }
        };
        let server = server.with_cert_resolver(certificate.clone());
        let client = |verifier: Arc<dyn ServerCertVerifier>| {
            let client = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map_err(refused)?
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_client_cert_resolver(certificate.clone());
            Ok::<_, TlsError>(client)
        };
        let connector = match (bootstrap, has_authority) {
            (Some(path), _) => {
                let verifier = Verifier::new(Bootstrap::new(path), provider());
                Some(Connector::new(client(Arc::new(verifier))?, Some(files.clone())))
            }
            (None, true) => {
                let verifier = Verifier::new(Fresh::new(files, servers)?, provider());
                Some(Connector::new(client(Arc::new(verifier))?, None))
            }
            (None, false) => None,
        };
        let acceptor = TlsAcceptor::from(Arc::new(server));
        Ok(Tls { acceptor, connector, own_is_authority })
    }
}

/// Who asks for a certificate of this certificate's own refuses an authority's before all else.
fn is_authority(own: &CertificateDer<'static>, provider: Arc<CryptoProvider>) -> bool {
    let mut roots = RootCertStore::empty();
    if roots.add(own.clone()).is_err() {
        return false;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let seen = verifier.map(|verifier| {
        verifier.verify_server_cert(own, &[], &server_name("switch"), &[], UnixTime::now())
    });
    seen.is_ok_and(|seen| seen.is_err_and(|error| is_of_authority(&error)))
}

/// Whom a connection is made to, for TLS: addresses and names alike, which nobody compares.
pub(crate) fn server_name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_string())
        .unwrap_or(ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()))
}

/// Takes a certificate that the authority signed, whatever names are in it.
#[derive(Debug)]
struct SignedBy(Arc<WebPkiServerVerifier>);

impl Judge for SignedBy {
    fn judge(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, rustls::Error> {
        let Shown { end_entity, intermediates, server_name, ocsp_response, now } = *shown;
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            // Names come last: all else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str) -> CertificateDer<'static> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
        certificates(&path).expect("it is there").remove(0)
    }

    /// What a connection says of a peer that shows a certificate, where an authority is trusted.
    fn seen(authority: &str, who: &str) -> Result<ServerCertVerified, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate(authority)).expect("it is an authority's");
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let inner = inner.build().expect("it has roots");
        let signed = Verifier::new(SignedBy(inner), provider);
        let (name, now) = (server_name("any"), UnixTime::now());
        let seen = signed.verify_server_cert(&certificate(who), &[], &name, &[], now);
        seen.map_err(|error| trouble(&std::io::Error::other(error)))
    }

    #[test]
    fn an_authoritys_certificate_is_told_from_ones_own() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        assert!(is_authority(&certificate("ca.pem"), provider.clone()));
        assert!(!is_authority(&certificate("switch-cert.pem"), provider.clone()));
        // What a connection says of a peer that shows one.
        let seen = |who: &str| seen("ca.pem", who);
        assert!(seen("switch-cert.pem").is_ok());
        let error = seen("ca.pem").expect_err("it is an authority's");
        assert!(error.contains("a certificate of an authority (CA:TRUE)"), "{error}");
        assert!(error.starts_with("the other side's"), "{error}");
        let error = seen("stranger-cert.pem").expect_err("another signed it");
        assert!(error.contains("UnknownIssuer"), "{error}");
    }

    fn tests_file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
    }

    /// `openssl x509 -req` without extensions makes certificates of version 1.
    #[test]
    fn certificates_of_version_1_are_named_as_such() {
        let files = |certificate: &str, key: &str, ca: &str| TlsFiles {
            certificate: tests_file(certificate),
            private_key: tests_file(key),
            ca_cert: Some(tests_file(ca)),
            bootstrap: false,
            crl: None,
        };
        // One's own.
        let own = Tls::load(&files("old-cert.pem", "old-privkey.pem", "ca.pem"));
        let error = own.err().expect("version 1 is not taken").to_string();
        assert!(error.contains("old-cert.pem: an X.509 certificate of version 1"), "{error}");
        // The other side's.
        let seen = |who: &str| seen("old-authority.pem", who);
        let error = seen("old-cert.pem").expect_err("it is of version 1");
        assert!(
            error.contains("the other side's certificate: an X.509 certificate of version 1"),
            "{error}"
        );
        // What an authority of version 1 signed is as good as any.
        assert!(seen("under-old-cert.pem").is_ok());
        let with_old_root =
            Tls::load(&files("switch-cert.pem", "switch-privkey.pem", "old-authority.pem"));
        assert!(with_old_root.is_ok(), "{:?}", with_old_root.err());
    }
}
