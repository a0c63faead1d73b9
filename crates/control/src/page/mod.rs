//! The web page of a running switch, `--http`.
//!
//! In: an address, perhaps a token and a folder of gauge's reports. Out: a site. `GET /` is the page, one file with its
//! script and style inside. `GET /api/VERB?ARGUMENT=VALUE` answers what the control socket answers, for verbs that only
//! look. `POST /api/VERB` takes the arguments as JSON, and changes what they say; it wants the token.
//! `GET /api/live` is a stream of samples ([`live`]).
//!
//! | file | is |
//! |---|---|
//! | `guard` | who may ask: names of the host, the token |
//! | `ask` | `/api/VERB` |
//! | `live` | the sampler, and who watches |
//! | `sample` | what a sample has, and what is kept of it |
//! | `reports` | gauge's reports of a folder |
//! | `bundle` | the page as one text, and what it may load |
//! | `app/` | the page: HTML, style, script |
//!
//! Holds: nothing is changed without the token; at a loopback address nobody is answered who names another host, so that
//! pages of other sites cannot read by a name that they point here; beyond loopback a start without token or client
//! certificates is refused.
//! Costs: counters are read once a second, whoever watches. No packet does anything for it.
//! Checked by: the tests here and of [`grpc::site`], `lab/page` in a browser.

mod ask;
mod bundle;
mod guard;
mod live;
mod reports;
mod sample;
#[cfg(test)]
mod tests;

pub use guard::{PageAt, Token};

use crate::bridges::Bridges;
use crate::failure::Failure;
use crate::protocol::{Reply, Request};
use crate::role::Role;
use ask::Answers;
use grpc::site::{Asked, Content, Limits, Told};
use grpc::{Bind, Server, Services, Site};
use live::Live;
use rustls::ServerConfig;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// What answers.
struct App {
    at: PageAt,
    answers: Answers,
    live: Live,
    html: String,
    policy: String,
    reports: Option<PathBuf>,
}

/// The page's server; dropped, it stops with its sampler.
pub(crate) struct Served {
    server: Server,
}

impl Served {
    /// Where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }
}

/// Serves the page, if it is asked for. `answers` are those of the control socket; `tls` is used where other machines reach it.
pub(crate) fn serve(
    at: Option<&PageAt>,
    bridges: &Bridges,
    bind: Bind,
    answers: impl Fn(Role, Request) -> Result<Reply<Value>, String> + Send + Sync + 'static,
    tls: impl FnOnce() -> Result<Option<Arc<ServerConfig>>, Failure>,
) -> Result<Option<Served>, Failure> {
    let Some(at) = at else { return Ok(None) };
    let tls = if at.is_local() { None } else { tls()? };
    if !at.is_local() && tls.is_none() {
        tracing::warn!(
            address = %at.address,
            "the page's token passes without encryption; use TLS by --private-key and --certificate"
        );
    }
    let live = Live::start(bridges.clone()).map_err(Failure::bad)?;
    let (html, policy) = bundle::page();
    let answers = Box::new(answers);
    let reports = at.reports.clone();
    let app = Arc::new(App { at: at.clone(), answers, live, html, policy, reports });
    let services = Services::of_site(app, Limits::default());
    let server = Server::start(at.address, "the page", bind, tls, services);
    server.map(|server| Some(Served { server })).map_err(Failure::bad)
}

impl Site for App {
    fn answer(&self, asked: &Asked) -> Told {
        let mut told = self.routed(asked).unwrap_or_else(|refused| refused);
        let fixed = [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ];
        told.headers.extend(fixed.map(|(name, value)| (name, value.to_owned())));
        told.headers.push(("content-security-policy", self.policy.clone()));
        told
    }
}

impl App {
    fn routed(&self, asked: &Asked) -> Result<Told, Told> {
        guard::check_host(&self.at, asked.host.as_deref())?;
        let reads = matches!(asked.method.as_str(), "GET" | "HEAD");
        let posts = asked.method == "POST";
        match asked.path.as_str() {
            "/" if reads => Ok(Told::new("text/html; charset=utf-8", self.html.clone())),
            // Browsers ask for it.
            "/favicon.ico" if reads => Ok(Told { status: 204, ..Told::new("image/x-icon", "") }),
            path => {
                let Some(what) = path.strip_prefix("/api/") else {
                    return Err(Told::refused(404, format!("there is no {path}; there is /\n")));
                };
                if !reads && !posts {
                    let headers = vec![("allow", "GET, HEAD, POST".to_owned())];
                    let text = format!("{} is not there: GET looks, POST changes\n", asked.method);
                    return Err(Told { headers, ..Told::refused(405, text) });
                }
                guard::check_token(&self.at, asked.authorization.as_deref(), posts)?;
                match (what, reads) {
                    ("live", true) => self.watch(),
                    ("page", true) => Ok(self.about()),
                    ("reports", true) => reports::answer(self.reports.as_deref(), asked),
                    (verb, true) => ask::look(&self.answers, verb, asked.query.as_deref()),
                    (verb, false) => ask::change(&self.answers, verb, asked),
                }
            }
        }
    }

    /// What the page has to know before it shows anything.
    fn about(&self) -> Told {
        ask::result(&serde_json::json!({
            "changes": self.at.token.is_some(),
            "reports": self.reports.is_some(),
            "version": env!("CARGO_PKG_VERSION"),
        }))
    }

    fn watch(&self) -> Result<Told, Told> {
        let stream = self.live.watch().ok_or_else(|| {
            let text = format!("{} viewers watch, the most; close a page\n", live::VIEWERS_MAX);
            Told::refused(503, text)
        })?;
        Ok(Told { body: Content::Stream(stream), ..Told::new("text/event-stream", "") })
    }
}
