//! Who may ask the page: names of its host, the token.
//!
//! A page of another site that a browser shows can send requests here. It gets no answer to read, as no header allows it,
//! unless its own name leads to this address (DNS rebinding): the header `Host` then has that name, and is refused at a
//! loopback address. Changes want the token in a header, which no other page has, and no cookies are used.
//!
//! The token is compared by its SHA-256, so the time that takes tells nothing of the token.

use crate::failure::Failure;
use grpc::site::Told;
use ring::digest::{SHA256, digest};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Characters of a token, at least.
const TOKEN_MIN: usize = 16;
/// Characters of a token, at most.
const TOKEN_MAX: usize = 1024;

/// Where the page is served, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAt {
    /// Where.
    pub address: SocketAddr,
    /// What changes want, and readers beyond loopback.
    pub token: Option<Token>,
    /// A folder of gauge's reports.
    pub reports: Option<PathBuf>,
}

impl PageAt {
    /// Only this machine reaches it.
    pub(crate) fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Refuses an address that others reach where nothing says who they are. `known` says that TLS asks for certificates.
    pub fn check(&self, known: bool) -> Result<(), Failure> {
        if self.is_local() || self.token.is_some() || known {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--http {}: other machines reach this address; give --http-token FILE, or --private-key, --certificate and \
             --ca-cert so that clients show certificates, or name a loopback address, as in 127.0.0.1",
            self.address
        )))
    }
}

/// What is kept of a token: its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

fn digest_of(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

impl Token {
    /// Of a file that others cannot read: one line.
    pub fn read(path: &Path) -> Result<Token, Failure> {
        let wrong = |text: String| Failure::Bad(format!("--http-token {}: {text}", path.display()));
        let meta = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if meta.mode() & 0o007 != 0 {
            return Err(wrong(format!(
                "everybody on this machine may read it; chmod 600 {}",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Token::of(&text).map_err(wrong)
    }

    pub(crate) fn of(text: &str) -> Result<Token, String> {
        let text = text.trim();
        let fits = (TOKEN_MIN..=TOKEN_MAX).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "one line of {TOKEN_MIN} to {TOKEN_MAX} characters without spaces was expected, as `openssl rand -hex \
                 32` makes one"
            ));
        }
        Ok(Token(digest_of(text)))
    }

    /// All bytes are looked at, whatever they are.
    fn is(&self, text: &str) -> bool {
        let other = digest_of(text);
        self.0.iter().zip(other).fold(0, |unlike, (a, b)| unlike | (a ^ b)) == 0
    }
}

/// Refuses who names another host than this machine, where only this machine is to ask.
pub(super) fn check_host(at: &PageAt, host: Option<&str>) -> Result<(), Told> {
    if !at.is_local() || host.is_some_and(is_this_machine) {
        return Ok(());
    }
    let text = "the page is for this machine: ask localhost, 127.0.0.1 or [::1]\n";
    Err(Told::refused(403, text))
}

/// A header `Host` that no other site can have.
fn is_this_machine(host: &str) -> bool {
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let address = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(bare);
    address.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Refuses who lacks the token where it is wanted: to change anything, and to read from other machines.
pub(super) fn check_token(
    at: &PageAt,
    authorization: Option<&str>,
    changes: bool,
) -> Result<(), Told> {
    let Some(token) = &at.token else {
        let text = "the page shows and changes nothing; --http-token FILE allows changes\n";
        return if changes { Err(Told::refused(403, text)) } else { Ok(()) };
    };
    // A token that is shown must be right, so that the page learns of a wrong one.
    let shown = authorization.map(|text| text.strip_prefix("Bearer ").unwrap_or_default());
    match shown {
        Some(shown) if token.is(shown.trim()) => Ok(()),
        None if at.is_local() && !changes => Ok(()),
        _ => {
            let headers = vec![("www-authenticate", "Bearer".to_owned())];
            let text =
                "the token is wanted: Authorization: Bearer TOKEN, with that of --http-token\n";
            Err(Told { headers, ..Told::refused(401, text) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn hosts_of_this_machine_are_told_from_others() {
        for host in ["localhost", "LOCALHOST:9480", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:9480", "localhost.evil.example", "10.0.0.1"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_token_comes_from_a_file_of_ones_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|failure| failure.text())
        };
        let long = "0123456789abcdef";
        assert!(read(&format!("{long}\n"), 0o600).unwrap().is(long));
        assert!(!read(long, 0o640).unwrap().is("0123456789abcdeg"));
        assert!(read(long, 0o644).unwrap_err().contains("chmod 600"));
        for bad in ["short", "", "0123456789 abcdef", "0123456789abcdef\n0123456789abcdef"] {
            assert!(read(bad, 0o600).unwrap_err().contains("openssl rand -hex"), "{bad}");
        }
        assert_eq!(format!("{:?}", read(long, 0o600).unwrap()), "Token");
    }

    #[test]
    fn an_address_for_others_wants_to_know_who_they_are() {
        let at = |address: &str, token: bool| PageAt {
            address: address.parse().unwrap(),
            token: token.then(|| Token::of("0123456789abcdef").unwrap()),
            reports: None,
        };
        for (address, token, known, good) in [
            ("127.0.0.1:1", false, false, true),
            ("[::1]:1", false, false, true),
            ("0.0.0.0:1", false, false, false),
            ("10.0.0.1:1", false, false, false),
            ("10.0.0.1:1", true, false, true),
            ("10.0.0.1:1", false, true, true),
        ] {
            let checked = at(address, token).check(known).map_err(|failure| failure.text());
            assert_eq!(checked.is_ok(), good, "{address}");
            assert!(checked.err().is_none_or(|text| text.contains("give --http-token FILE")));
        }
    }
}
