//! TLS in both directions, with the right certificates and with wrong ones. Keys and certificates of
//! `tests/tls` serve nothing but these tests: `ca` signed `switch` and `controller`, `other` signed
//! `stranger`.

mod common;

use common::*;
use of_channel::{ChannelError, Config, Listen, Target, TlsFiles};
use openflow::codec::{self, Frame};
use openflow::{Hello, Message, Version, VersionSet, Xid};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme, StreamOwned,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

fn files(who: &str, ca: Option<&str>) -> TlsFiles {
    TlsFiles {
        private_key: file(&format!("{who}-privkey.pem")),
        certificate: file(&format!("{who}-cert.pem")),
        ca_cert: ca.map(file),
        bootstrap: false,
        crl: None,
    }
}

fn identity(who: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let files = files(who, None);
    let chain = vec![CertificateDer::from_pem_file(files.certificate).unwrap()];
    (chain, PrivateKeyDer::from_pem_file(files.private_key).unwrap())
}

/// Takes any certificate: what is tested is the other side.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Says hello, then asks for features; the messages that come until the answer. None if the other
/// side ends it.
fn talk(stream: &mut (impl Read + Write)) -> Option<Vec<Message>> {
    let versions = Some(VersionSet::of(&[Version::V13]));
    for message in [Message::Hello(Hello { versions }), Message::FeaturesRequest] {
        let bytes = codec::encode(Version::V13, Xid(1), &message).unwrap();
        stream.write_all(&bytes).ok()?;
    }
    let (mut input, mut all) = (Vec::new(), Vec::new());
    loop {
        while let Frame::Message { length } = codec::frame(&input) {
            let bytes: Vec<u8> = input.drain(..length).collect();
            all.push(codec::decode(Version::V13, &bytes).unwrap().1);
            if matches!(all.last(), Some(Message::FeaturesReply(_))) {
                return Some(all);
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(n) => input.extend_from_slice(&chunk[..n]),
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A controller that connects to us and shows this certificate.
fn connects(bed: &Bed, who: Option<&str>) -> Option<Vec<Message>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let config = match who {
        Some(who) => {
            let (chain, key) = identity(who);
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("switch").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = bed.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    talk(&mut StreamOwned::new(client, stream))
}

fn listening_tls(tls: Option<TlsFiles>) -> Config {
    let address = Ipv4Addr::LOCALHOST.into();
    Config { listeners: vec![Listen::Tls { address, port: 0 }], tls, ..listening() }
}

#[test]
fn controllers_that_connect_show_certificates_if_there_is_an_authority() {
    let bed = Bed::new(listening_tls(Some(files("switch", Some("ca.pem")))));
    assert!(matches!(bed.channel().listening(), [Listen::Tls { .. }]));
    assert!(connects(&bed, Some("controller")).is_some());
    assert!(connects(&bed, Some("stranger")).is_none(), "signed by another authority");
    assert!(connects(&bed, None).is_none(), "no certificate");
    // Those were no connections, and others still work.
    assert!(connects(&bed, Some("controller")).is_some());
    // What is no TLS at all ends, too.
    let mut plain = bed.connect();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(talk(&mut plain).is_none());
    drop(bed);
    let bed = Bed::new(listening_tls(Some(files("switch", None))));
    assert!(connects(&bed, None).is_some(), "without an authority nobody is asked");
}

/// Files that change while the switch runs are in force for new connections, unless they cannot be used.
#[test]
fn certificates_are_renewed_and_revoked_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // As tools do it: another file gets the name.
    let put = |from: &str, name: &str| {
        std::fs::copy(file(from), path("new")).unwrap();
        std::fs::rename(path("new"), path(name)).unwrap();
    };
    put("switch-privkey.pem", "key");
    put("switch-cert.pem", "certificate");
    put("revoking-ca.pem", "ca");
    put("none-revoked.pem", "crl");
    let bed = Bed::new(listening_tls(Some(TlsFiles {
        private_key: path("key"),
        certificate: path("certificate"),
        ca_cert: Some(path("ca")),
        bootstrap: false,
        crl: Some(path("crl")),
    })));
    let becomes = |who: &str, wanted: bool| {
        let deadline = std::time::Instant::now() + PATIENCE;
        while connects(&bed, Some(who)).is_some() != wanted {
            assert!(std::time::Instant::now() < deadline, "{who}: {wanted} was expected");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    assert!(connects(&bed, Some("kept")).is_some());
    assert!(connects(&bed, Some("revoked")).is_some());
    put("one-revoked.pem", "crl");
    becomes("revoked", false);
    assert!(connects(&bed, Some("kept")).is_some());
    // What cannot be used changes nothing.
    std::fs::write(path("crl"), "nonsense").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(connects(&bed, Some("kept")).is_some());
    assert!(connects(&bed, Some("revoked")).is_none());
    put("none-revoked.pem", "crl");
    becomes("revoked", true);
    // Another authority, and another certificate of its own.
    put("ca.pem", "ca");
    becomes("controller", true);
    assert!(connects(&bed, Some("kept")).is_none());
    let before = shown(&bed);
    put("kept-privkey.pem", "key");
    put("kept-cert.pem", "certificate");
    let deadline = std::time::Instant::now() + PATIENCE;
    while shown(&bed) == before {
        assert!(std::time::Instant::now() < deadline, "the old certificate is shown");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// The certificate that the switch shows.
fn shown(bed: &Bed) -> Vec<u8> {
    let (chain, key) = identity("controller");
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = ServerName::try_from("switch").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = bed.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(client, stream);
    assert!(talk(&mut stream).is_some());
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

/// A controller that the switch connects to and that shows this certificate: whether they agree.
fn is_connected_to(who: &str) -> bool {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build().unwrap();
    let (chain, key) = identity(who);
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    let target: Target = format!("tls:127.0.0.1:{port}").parse().unwrap();
    let tls = Some(files("switch", Some("ca.pem")));
    let _bed = Bed::new(Config { controllers: vec![target], tls, ..Config::default() });
    let (stream, _): (TcpStream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = ServerConnection::new(Arc::new(config)).unwrap();
    talk(&mut StreamOwned::new(server, stream)).is_some()
}

#[test]
fn the_switch_shows_its_certificate_and_looks_at_the_controllers() {
    // The controller demands the switch's certificate, too; the names in either are not compared.
    assert!(is_connected_to("controller"));
    assert!(!is_connected_to("stranger"), "the switch does not talk to who another one signed");
}

#[test]
fn what_is_missing_is_said_before_anything_runs() {
    let refused = |config: Config| {
        let bed = Bed::new(listening());
        let agent = bed.agent.clone();
        match of_channel::Channel::start(bed.switch.clone(), agent, config) {
            Ok(_) => panic!("it starts"),
            Err(error) => error,
        }
    };
    assert!(matches!(refused(listening_tls(None)), ChannelError::NoTls(..)));
    let controllers = vec!["tls:127.0.0.1:1".parse().unwrap()];
    let config = Config { controllers, tls: Some(files("switch", None)), ..Config::default() };
    let text = refused(config).to_string();
    assert_eq!(text, "tls:127.0.0.1:1: TLS needs --private-key and --certificate and --ca-cert");
    let mixed = TlsFiles { private_key: file("controller-privkey.pem"), ..files("switch", None) };
    assert!(matches!(refused(listening_tls(Some(mixed))), ChannelError::Tls(_)), "not its key");
    let empty = TlsFiles { certificate: file("switch-privkey.pem"), ..files("switch", None) };
    assert!(refused(listening_tls(Some(empty))).to_string().contains("holds no certificate"));
    let none = TlsFiles { private_key: file("nothing.pem"), ..files("switch", None) };
    assert!(refused(listening_tls(Some(none))).to_string().contains("nothing.pem"));
}
