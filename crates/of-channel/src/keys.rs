//! Files of TLS, and what is wrong with them, in words.

use std::path::PathBuf;

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The switch's private key.
    pub private_key: PathBuf,
    /// The switch's certificate, and those between it and the authority's.
    pub certificate: PathBuf,
    /// The authority's that signs controllers' certificates.
    pub ca_cert: Option<PathBuf>,
    /// While that file is not there, the first controller that is reached shows it, and it is kept there.
    pub bootstrap: bool,
    /// Lists of certificates that authorities have revoked.
    pub crl: Option<PathBuf>,
}

/// Why TLS cannot be.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{path}: {what}: {source}")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What came instead.
        source: rustls::pki_types::pem::Error,
    },
    /// A file holds no certificate.
    #[error("{0}: holds no certificate in PEM")]
    Empty(PathBuf),
    /// What the files hold does not fit together.
    #[error("{path}: {}", in_words(source).unwrap_or_else(|| source.to_string()))]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authority's certificates cannot serve as such.
    #[error("{path}: {text}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        text: String,
    },
}

/// The certificate that this is about is an authority's. [`rustls`] says so in a word of another crate.
pub(crate) fn is_of_authority(error: &dyn std::fmt::Debug) -> bool {
    format!("{error:?}").contains("CaUsedAsEndEntity")
}

/// An error about certificates in words, where [`rustls`] tells it in a name of another crate.
pub(crate) fn in_words(error: &(dyn std::fmt::Debug + 'static)) -> Option<String> {
    let text = format!("{error:?}");
    let words = if is_of_authority(error) {
        "a certificate of an authority (CA:TRUE) stands where one's own belongs; give a certificate that the authority \
         has signed"
    } else if text.contains("UnsupportedCertVersion") {
        "an X.509 certificate of version 1, and TLS needs version 3 here; sign it anew with an extension (`openssl x509 \
         -req -extfile FILE`, where FILE has the line `basicConstraints=CA:FALSE`), or by ovs-pki"
    } else {
        return None;
    };
    Some(words.to_string())
}
