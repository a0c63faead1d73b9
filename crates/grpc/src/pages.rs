//! Pages: what a browser, curl or Prometheus reads by GET.
//!
//! In: a request's path and a few of its headers, as [`Asked`]. Out: a status, a type and bytes, as [`Shown`]. A page is
//! made on a thread for blocking work, so it may wait for a lock, and connections beside it go on.
//!
//! Refused: other methods than GET and HEAD (405), paths that are no page (404, with those that there are).

use bytes::Bytes;
use http_body_util::Full;
use std::convert::Infallible;
use std::sync::Arc;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::header::{ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use tonic::codegen::http::{HeaderValue, Method, Request, Response, StatusCode};

/// What is asked of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Behind `?`, if there is anything.
    pub query: Option<String>,
    /// The header `Accept`.
    pub accept: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// HTTP's status.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// The text.
    pub body: Bytes,
}

impl Shown {
    /// A text of this type.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Shown {
        Shown { status: 200, content_type, body: body.into() }
    }

    /// Plain text with a status that says that something is wrong.
    pub fn refused(status: u16, text: impl Into<String>) -> Shown {
        Shown { status, content_type: PLAIN, body: Bytes::from(text.into()) }
    }
}

/// Plain text.
const PLAIN: &str = "text/plain; charset=utf-8";

/// A page.
pub trait Page: Send + Sync {
    /// What it shows now.
    fn show(&self, asked: &Asked) -> Shown;
}

impl<F: Fn(&Asked) -> Shown + Send + Sync> Page for F {
    fn show(&self, asked: &Asked) -> Shown {
        self(asked)
    }
}

type Answering = BoxFuture<Response<Body>, Infallible>;

/// The page's answer to a request.
pub(crate) fn answer(page: Arc<dyn Page>, request: &Request<Body>) -> Answering {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let text = format!("{} is not there: a page is read by GET\n", request.method());
        return ready(Shown::refused(405, text));
    }
    let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
    let asked = Asked {
        query: request.uri().query().map(str::to_owned),
        accept: header(ACCEPT),
        authorization: header(AUTHORIZATION),
    };
    Box::pin(async move {
        let shown = tokio::task::spawn_blocking(move || page.show(&asked)).await;
        Ok(response(shown.unwrap_or_else(|error| {
            tracing::error!(%error, "a page is not shown");
            Shown::refused(500, "the page failed; the switch's log says why\n")
        })))
    })
}

/// The answer where there is no such page.
pub(crate) fn not_found(path: &str, pages: impl Iterator<Item = &'static str>) -> Answering {
    let pages: Vec<_> = pages.collect();
    ready(Shown::refused(404, format!("there is no {path}; there is {}\n", pages.join(", "))))
}

fn ready(shown: Shown) -> Answering {
    Box::pin(async move { Ok(response(shown)) })
}

fn response(shown: Shown) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(shown.body)));
    *response.status_mut() =
        StatusCode::from_u16(shown.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(shown.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if shown.status == 405 {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Bind, Server};
    use crate::services::Services;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    fn served() -> Server {
        let page = |asked: &Asked| match asked.query.as_deref() {
            Some("panic") => panic!("as it was asked"),
            _ => Shown::new("text/html", format!("{:?} {:?}", asked.query, asked.accept)),
        };
        let services = Services::default().with_page("/page", Arc::new(page));
        Server::start("127.0.0.1:0".parse().unwrap(), "pages", Bind::Now, None, services).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nAccept: a/b\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn pages_are_read_with_http_1_1() {
        let server = served();
        let text = ask(server.address(), "GET /page?x=1");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("content-type: text/html\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nSome(\"x=1\") Some(\"a/b\")"), "{text}");
        let text = ask(server.address(), "HEAD /page");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn what_is_no_page_is_told() {
        let server = served();
        let text = ask(server.address(), "GET /other");
        assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("there is /page\n"), "{text}");
        let text = ask(server.address(), "POST /page");
        assert!(
            text.starts_with("HTTP/1.1 405 ") && text.contains("allow: GET, HEAD\r\n"),
            "{text}"
        );
        assert!(ask(server.address(), "nonsense").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_page_that_panics_ends_no_server() {
        let server = served();
        assert!(ask(server.address(), "GET /page?panic").starts_with("HTTP/1.1 500 "));
        assert!(ask(server.address(), "GET /page").starts_with("HTTP/1.1 200 "));
    }
}
