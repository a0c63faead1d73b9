//! How rustls asks for a controller's certificate to be judged: by a [`Judge`], while signatures are checked here.
//!
//! Holds true: whatever the judge says of a certificate, whoever shows it must have signed the handshake with its key.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::fmt::Debug;
use std::sync::Arc;

/// What a controller shows.
pub(crate) struct Shown<'a> {
    pub(crate) end_entity: &'a CertificateDer<'a>,
    pub(crate) intermediates: &'a [CertificateDer<'a>],
    pub(crate) server_name: &'a ServerName<'a>,
    pub(crate) ocsp_response: &'a [u8],
    pub(crate) now: UnixTime,
}

/// Says whether a certificate is believed.
pub(crate) trait Judge: Debug + Send + Sync {
    fn judge(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error>;
}

/// A judge, and what signatures are checked with.
#[derive(Debug)]
pub(crate) struct Verifier<J> {
    judge: J,
    provider: Arc<CryptoProvider>,
}

impl<J: Judge> Verifier<J> {
    pub(crate) fn new(judge: J, provider: Arc<CryptoProvider>) -> Verifier<J> {
        Verifier { judge, provider }
    }

    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl<J: Judge> ServerCertVerifier for Verifier<J> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(&Shown { end_entity, intermediates, server_name, ocsp_response, now })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}
