//! The page behind TLS that asks for certificates, by real handshakes.

use super::*;
use of_channel::TlsFiles;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../of-channel/tests/tls").join(name)
}

/// Takes one certificate, whatever names it has; signatures are looked at.
#[derive(Debug)]
struct Expects(CertificateDer<'static>, Arc<CryptoProvider>);

impl ServerCertVerifier for Expects {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(*own, self.0, "the switch shows its certificate");
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.1.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.1.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// What the page answers to who shows this certificate; none if the connection does not come up.
fn get(port: u16, own: Option<&str>, path: &str) -> Result<String, std::io::Error> {
    let provider = Arc::new(ring::default_provider());
    let expected = CertificateDer::from_pem_file(file("switch-cert.pem")).unwrap();
    let config = ClientConfig::builder_with_provider(provider.clone());
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(Expects(expected, provider)));
    let config = match own {
        None => config.with_no_client_auth(),
        Some(who) => {
            let chain = CertificateDer::from_pem_file(file(&format!("{who}-cert.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(file(&format!("{who}-privkey.pem"))).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    let name = ServerName::try_from("switch").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let request = format!("GET {path} HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        // The head is there, and the server has closed the connection in its own way.
        Err(_) if text.starts_with("HTTP/1.1 200") => Ok(text),
        Err(error) => Err(error),
        Ok(_) => Ok(text),
    }
}

#[test]
fn who_shows_a_certificate_of_the_authority_may_look_and_nobody_else() {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let files = TlsFiles {
        private_key: file("switch-privkey.pem"),
        certificate: file("switch-cert.pem"),
        ca_cert: Some(file("ca.pem")),
        bootstrap: false,
        crl: None,
    };
    // An address that other machines reach, without a token.
    let at = PageAt { address: "0.0.0.0:0".parse().unwrap(), token: None, reports: None };
    at.check(true).unwrap();
    let answers = crate::server::answers(&bridges, None, None);
    let tls = || Ok(Some(files.server().unwrap()));
    let served = serve(Some(&at), &bridges, Bind::Now, answers, tls).unwrap().unwrap();
    let port = served.address().port();

    let page = get(port, Some("controller"), "/").unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!DOCTYPE html>"), "{page}");
    for (who, why) in [(None, "CertificateRequired"), (Some("stranger"), "UnknownCA")] {
        let error = get(port, who, "/api/version").unwrap_err().to_string();
        assert!(error.contains(why), "{who:?}: {error}");
    }
    // Without TLS there is nothing.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = Vec::new();
    let _ = plain.read_to_end(&mut text);
    assert!(!text.starts_with(b"HTTP"), "{text:?}");
    drop(served);
    bridges.stop();
}
