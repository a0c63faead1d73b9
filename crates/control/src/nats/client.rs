//! How a server is reached, and what its client tells.

use crate::config::group::Server;
use async_nats::{ConnectOptions, Event};
use std::time::Duration;

/// Between two attempts to reach a server.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);
/// The port of NATS.
const PORT: u16 = 4222;
/// A server that does not answer for so long is not reached.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A client's options: TLS and credentials are read from their files.
///
/// # Errors
/// Which file cannot be used, and why. No secret is in it.
pub(crate) fn options(server: &Server) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new();
    if let Some(file) = &server.credentials {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("credentials={}: {error}", file.display()))?;
        options = options
            .credentials(&text)
            .map_err(|_| format!("credentials={}: no file of credentials", file.display()))?;
    }
    // The library reads these when it connects, and then tells only that TLS has failed.
    for file in server.files() {
        std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(ca) = &server.ca {
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &server.identity {
        options =
            options.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    Ok(options
        .name("millrace")
        .reconnect_delay_callback(|_| AGAIN)
        .connection_timeout(PATIENCE)
        .ping_interval(Duration::from_secs(2)))
}

/// What an event says of a fault; none of one that tells no fault. The library tells the kind of a fault alone: that TLS with a server has
/// failed looks like a server that is not there, and is found out by reaching for it.
pub(crate) async fn fault(server: &Server, event: &Event) -> Option<String> {
    match event {
        Event::ServerError(error) => Some(format!("the server refuses: {error}")),
        Event::ClientError(error) => {
            let text = error.to_string();
            let text = text.trim_start_matches("nats: ");
            let tls = server.ca.is_some()
                || server.identity.is_some()
                || server.urls.iter().any(|url| url.starts_with("tls://"));
            let handshake = text.contains("TLS") || text == "IO error" && answers(server).await;
            Some(match (text, tls && handshake) {
                (_, true) => {
                    "TLS with the server fails: ca=, certificate= and key= do not fit the server's"
                        .to_owned()
                }
                ("IO error", false) => "no server answers".to_owned(),
                (text, false) => text.to_owned(),
            })
        }
        _ => None,
    }
}

/// Whether somebody takes a connection where the server is to be.
async fn answers(server: &Server) -> bool {
    for url in &server.urls {
        let at = url.split_once("://").map_or(url.as_str(), |(_, at)| at);
        let has_port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let at = if has_port { at.to_owned() } else { format!("{at}:{PORT}") };
        let reached = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(at)).await;
        if matches!(reached, Ok(Ok(_))) {
            return true;
        }
    }
    false
}
