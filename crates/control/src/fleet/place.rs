//! Where a fleet's configuration is: `nats://HOST[:PORT][,nats://HOST...]/GROUP [KEY=VALUE...]`.
//!
//! Words: `member=NAME` (default: the host's name), `cache=DIR` (default: `/var/lib/millrace/fleet/GROUP`), `ca=FILE`,
//! `certificate=FILE`, `key=FILE`, `credentials=FILE`. Passwords in the address are refused: arguments are visible to all.

use crate::config::group::Server;
use std::path::{Path, PathBuf};

/// The longest name of a group or member.
const NAME_MAX: usize = 32;
const CACHES: &str = "/var/lib/millrace/fleet";

/// Where it is, and who this member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) server: Server,
    pub(crate) cache: PathBuf,
}

impl Place {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with which word.
    pub fn parse(text: &str) -> Result<Place, String> {
        let mut words = text.split_whitespace();
        let at = words.next().unwrap_or_default();
        let form = || {
            format!(
                "{}: nats://HOST[:PORT]/GROUP or tls://HOST[:PORT]/GROUP was expected",
                shown(at)
            )
        };
        let (servers, group) = at.rsplit_once('/').ok_or_else(form)?;
        let urls: Vec<String> = servers.split(',').map(str::to_owned).collect();
        for url in &urls {
            let scheme = ["nats://", "tls://"].iter().find_map(|scheme| url.strip_prefix(scheme));
            let host = scheme.filter(|host| !host.is_empty()).ok_or_else(form)?;
            if host.contains('@') {
                return Err(
                    "a password in the address is visible to all: name a file, credentials=FILE"
                        .to_owned(),
                );
            }
            // A group that was forgotten makes a host of none.
            if host.contains('/') {
                return Err(form());
            }
        }
        if !is_name(group) {
            return Err(format!(
                "{group:?} is no name of a group: up to {NAME_MAX} letters, digits, - and _ were expected, behind the last /"
            ));
        }
        let mut place = Place {
            group: group.to_owned(),
            member: String::new(),
            server: Server { urls, ..Server::default() },
            cache: Path::new(CACHES).join(group),
        };
        let (mut certificate, mut key) = (None, None);
        let mut seen = Vec::new();
        for word in words {
            let (name, value) = word
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("{word}: KEY=VALUE was expected"))?;
            if seen.contains(&name) {
                return Err(format!("{name}= is there twice"));
            }
            seen.push(name);
            match name {
                "member" => value.clone_into(&mut place.member),
                "cache" => place.cache = value.into(),
                "ca" => place.server.ca = Some(value.into()),
                "certificate" => certificate = Some(PathBuf::from(value)),
                "key" => key = Some(PathBuf::from(value)),
                "credentials" => place.server.credentials = Some(value.into()),
                _ => {
                    return Err(format!(
                        "{word}: there are member=, cache=, ca=, certificate=, key= and credentials="
                    ));
                }
            }
        }
        place.server.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("certificate= and key= go together".to_owned()),
        };
        if place.member.is_empty() {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            place.member = host.split('.').next().unwrap_or_default().to_owned();
        }
        match is_name(&place.member) {
            true => Ok(place),
            false => Err(format!(
                "{:?} is no name of a member: member= with up to {NAME_MAX} letters, digits, - and _ was expected",
                place.member
            )),
        }
    }

    /// As people read it; it has no secrets.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.server.urls.join(","), self.group)
    }
}

/// What was given, without what may be a password.
fn shown(at: &str) -> String {
    match (at.split_once("://"), at.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}"),
        _ => at.to_owned(),
    }
}

/// A name of a group or member.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read() {
        let place = Place::parse("nats://10.0.0.9:4222,tls://b/gw member=a cache=/c ca=/ca certificate=/x key=/y credentials=/z").unwrap();
        assert_eq!(
            (&*place.group, &*place.member, place.shown()),
            ("gw", "a", "nats://10.0.0.9:4222,tls://b/gw".to_owned())
        );
        assert_eq!(
            (place.server.files().count(), place.cache.display().to_string()),
            (4, "/c".to_owned())
        );
        let least = Place::parse("nats://h/gw member=b").unwrap();
        assert_eq!(least.cache.display().to_string(), "/var/lib/millrace/fleet/gw");
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_shown() {
        for (text, why) in [
            ("", "nats://HOST"),
            ("nats://h", "nats://HOST"),
            ("http://h/g", "nats://HOST"),
            ("nats:///g", "nats://HOST"),
            ("nats://h/", "no name of a group"),
            ("nats://h/a.b", "no name of a group"),
            ("nats://h/g member=a.b", "no name of a member"),
            ("nats://h/g colour=red", "there are member="),
            ("nats://h/g ca", "KEY=VALUE"),
            ("nats://h/g ca=a ca=b", "ca= is there twice"),
            ("nats://h/g key=a", "go together"),
            ("nats://u:s3cret@h/g", "visible to all"),
            ("u:s3cret@h", "nats://HOST"),
            ("nats://u:s3cret@h", "nats://HOST"),
        ] {
            let error = Place::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("s3cret") || !text.contains("://"), "{text}: {error}");
        }
    }
}
