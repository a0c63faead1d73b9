//! The switch's files for TLS, of `run` and of `vswitchd`.

use crate::failure::Failure;
use of_channel::TlsFiles;
use std::path::PathBuf;

/// The files, if they are named.
pub fn tls_files(
    private_key: Option<PathBuf>,
    certificate: Option<PathBuf>,
    ca_cert: Option<PathBuf>,
    crl: Option<PathBuf>,
) -> Result<Option<TlsFiles>, Failure> {
    if crl.is_some() && ca_cert.is_none() {
        return Err(Failure::usage(
            "crl lists what an authority has revoked: name its certificate as ca-cert",
        ));
    }
    match (private_key, certificate) {
        (Some(private_key), Some(certificate)) => {
            Ok(Some(TlsFiles { private_key, certificate, ca_cert, bootstrap: false, crl }))
        }
        (None, None) if ca_cert.is_none() => Ok(None),
        _ => Err(Failure::usage("TLS needs both private-key and certificate, and perhaps ca-cert")),
    }
}
