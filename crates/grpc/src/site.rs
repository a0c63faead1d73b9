//! A site: all paths of an address, with HTTP/1.1, for browsers.
//!
//! In: a request as [`Asked`], its body read. Out: a status, headers and a body, which may be a stream that goes on until
//! either side ends it. An answer is made on a thread for blocking work, as that of a [page](crate::pages).
//!
//! Bounded by [`Limits`]: the size of a request's head and body, the time until it has come, the time until the other side
//! takes what is sent. Who goes beyond loses its connection, or is told 408 or 413.
//! Checked by: the tests below.

use crate::wire::Io;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// What is asked of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In capitals.
    pub method: String,
    /// From the first slash to the question mark.
    pub path: String,
    /// Behind `?`, if there is anything.
    pub query: Option<String>,
    /// The header `Host`.
    pub host: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// All of the body.
    pub body: Bytes,
}

/// What is told.
#[derive(Debug)]
pub struct Told {
    /// HTTP's status.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// Other headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Content,
}

/// A body.
#[derive(Debug)]
pub enum Content {
    /// As a whole.
    Whole(Bytes),
    /// What comes here, until the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

/// What answers at a site.
pub trait Site: Send + Sync {
    /// Answers a request.
    fn answer(&self, asked: &Asked) -> Told;
}

/// How much of a client is put up with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's line and headers; at least 8 KiB.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Until the head has come, also of a connection that stays open without a request; then again until the body has.
    pub request_time: Duration,
    /// Until the other side takes anything of what is sent.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes_max: 16 << 10,
            headers_max: 64,
            body_bytes_max: 64 << 10,
            request_time: Duration::from_secs(20),
            stall_time: Duration::from_secs(30),
        }
    }
}

/// Plain text.
const PLAIN: &str = "text/plain; charset=utf-8";

impl Told {
    /// A body of this type.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Told {
        let body = Content::Whole(body.into());
        Told { status: 200, content_type, headers: Vec::new(), body }
    }

    /// Plain text with a status that says that something is wrong.
    pub fn refused(status: u16, text: impl Into<String>) -> Told {
        Told { status, ..Told::new(PLAIN, text.into()) }
    }
}

type Answered = Response<BoxBody<Bytes, Infallible>>;

/// Serves connections as they come.
pub(crate) async fn serve(
    mut connections: mpsc::Receiver<io::Result<Io>>,
    site: Arc<dyn Site>,
    limits: Limits,
) {
    while let Some(connection) = connections.recv().await {
        let Ok(io) = connection else { continue };
        let site = site.clone();
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(limits.request_time)
                .max_headers(limits.headers_max)
                .max_buf_size(limits.head_bytes_max);
            let service = service_fn(|request| answer(site.clone(), request, limits));
            let io = TokioIo::new(Patient::new(io, limits.stall_time));
            // A client that goes, or that is let go of, is no event.
            if let Err(error) = http.serve_connection(io, service).await {
                tracing::debug!(%error, "a connection of a browser has ended");
            }
        });
    }
}

async fn answer(
    site: Arc<dyn Site>,
    request: Request<Incoming>,
    limits: Limits,
) -> Result<Answered, Infallible> {
    let (head, body) = request.into_parts();
    let read = Limited::new(body, limits.body_bytes_max).collect();
    let body = match timeout(limits.request_time, read).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let text = format!("a body has at most {} bytes\n", limits.body_bytes_max);
            return Ok(closing(response(Told::refused(413, text))));
        }
        Ok(Err(_)) => return Ok(closing(response(Told::refused(400, "the body is broken\n")))),
        Err(_) => return Ok(closing(response(Told::refused(408, "the body has not come\n")))),
    };
    let header = |name| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
    let asked = Asked {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        host: header(HOST),
        authorization: header(AUTHORIZATION),
        content_type: header(CONTENT_TYPE),
        body,
    };
    let told = tokio::task::spawn_blocking(move || site.answer(&asked)).await;
    Ok(response(told.unwrap_or_else(|error| {
        tracing::error!(%error, "a site does not answer");
        Told::refused(500, "the answer failed; the switch's log says why\n")
    })))
}

/// What is left of a request is not read.
fn closing(mut response: Answered) -> Answered {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn response(told: Told) -> Answered {
    let body = match told.body {
        Content::Whole(bytes) => Full::new(bytes).boxed(),
        Content::Stream(receiver) => {
            StreamBody::new(ReceiverStream::new(receiver).map(|bytes| Ok(Frame::data(bytes))))
                .boxed()
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(told.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(told.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in told.headers {
        match HeaderValue::from_str(&value) {
            Ok(value) => drop(headers.insert(HeaderName::from_static(name), value)),
            Err(error) => tracing::error!(%error, name, "a header is left out"),
        }
    }
    response
}

/// A connection whose other side must take what is sent within a time.
struct Patient {
    io: Io,
    most: Duration,
    /// Runs while the other side takes nothing.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(io: Io, most: Duration) -> Patient {
        Patient { io, most, waiting: None }
    }

    /// What a write comes to, which may have waited for too long.
    fn judged<T>(
        &mut self,
        cx: &mut Context<'_>,
        came: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if came.is_ready() {
            self.waiting = None;
            return came;
        }
        let most = self.most;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(most)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.io).poll_write(cx, buf);
        self.judged(cx, came)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.io).poll_flush(cx);
        self.judged(cx, came)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.io).poll_shutdown(cx);
        self.judged(cx, came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Bind, Server};
    use crate::services::Services;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;
    use std::time::Instant;

    /// Tells what it was asked; `/stream` tells what is sent there.
    #[derive(Default)]
    struct Echo(Mutex<Option<mpsc::Sender<Bytes>>>);

    impl Site for Echo {
        fn answer(&self, asked: &Asked) -> Told {
            match asked.path.as_str() {
                "/stream" => {
                    let (to, stream) = mpsc::channel(2);
                    *self.0.lock().unwrap() = Some(to);
                    Told { body: Content::Stream(stream), ..Told::new("text/event-stream", "") }
                }
                "/panic" => panic!("as it was asked"),
                "/large" => Told::new(PLAIN, vec![b'x'; 64 << 20]),
                _ => {
                    let text = format!("{asked:?}");
                    Told { headers: vec![("x-own", "1".into())], ..Told::new(PLAIN, text) }
                }
            }
        }
    }

    const SHORT: Duration = Duration::from_millis(300);

    fn served() -> (Server, Arc<Echo>) {
        let site = Arc::new(Echo::default());
        let limits = Limits { request_time: SHORT, stall_time: SHORT, ..Limits::default() };
        let services = Services::of_site(site.clone(), limits);
        let address = "127.0.0.1:0".parse().unwrap();
        (Server::start(address, "a site", Bind::Now, None, services).unwrap(), site)
    }

    fn open(server: &Server, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request).unwrap();
        stream
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut text = Vec::new();
        // A connection that is cut counts as its end.
        let _ = open(server, request.as_bytes()).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn a_request_is_handed_over_whole() {
        let (server, _) = served();
        let text = ask(
            &server,
            "POST /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\nConnection: close\r\n\r\n{}",
        );
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("x-own: 1\r\n"), "{text}");
        assert!(text.contains("cache-control: no-store\r\n"), "{text}");
        let said = "Asked { method: \"POST\", path: \"/a/b\", query: Some(\"c=d\"), host: Some(\"h:1\"), \
            authorization: Some(\"Bearer t\"), content_type: Some(\"application/json\"), body: b\"{}\" }";
        assert!(text.ends_with(said), "{text}");
        assert!(ask(&server, "GET /panic HTTP/1.1\r\nConnection: close\r\n\r\n").contains(" 500 "));
        assert!(ask(&server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").contains(" 200 "));
    }

    #[test]
    fn a_request_is_bounded_in_size() {
        let (server, _) = served();
        let large = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", 1 << 20);
        assert!(ask(&server, &(large + &"x".repeat(1 << 17))).starts_with("HTTP/1.1 413 "));
        let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40 << 10));
        assert!(ask(&server, &head).starts_with("HTTP/1.1 431 "));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(65));
        assert!(ask(&server, &many).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn a_client_that_dawdles_is_let_go_of() {
        let (server, _) = served();
        for head in ["", "GET / HTTP/1.1\r\nHost:"] {
            let began = Instant::now();
            let text = ask(&server, head);
            assert!(!text.contains(" 200 "), "{text}");
            assert!(began.elapsed() < Duration::from_secs(15), "{head:?}");
        }
        let text = ask(&server, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n12");
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
        // Who does not read what is sent: the rest of it never comes.
        let mut stream = open(&server, b"GET /large HTTP/1.1\r\n\r\n");
        std::thread::sleep(SHORT * 4);
        let (mut chunk, mut came) = (vec![0; 1 << 20], 0);
        while let Ok(n @ 1..) = stream.read(&mut chunk) {
            came += n;
        }
        assert!(came < 64 << 20, "{came}");
    }

    #[test]
    fn a_stream_goes_on_until_it_is_ended() {
        let (server, site) = served();
        let mut stream = open(&server, b"GET /stream HTTP/1.1\r\nConnection: close\r\n\r\n");
        let mut text = String::new();
        let mut read = |until: &str| {
            let mut byte = [0];
            while !text.contains(until) {
                stream.read_exact(&mut byte).unwrap();
                text.push(byte[0].into());
            }
        };
        read("\r\n\r\n");
        let to = site.0.lock().unwrap().take().unwrap();
        // Longer than a request may take.
        std::thread::sleep(SHORT * 2);
        for part in ["one", "two"] {
            to.blocking_send(Bytes::from(part)).unwrap();
            read(part);
        }
        drop(to);
        read("\r\n0\r\n\r\n");
        // Who goes is noticed by the sender.
        let stream = open(&server, b"GET /stream HTTP/1.1\r\n\r\n");
        let end = Instant::now() + Duration::from_secs(30);
        let to = loop {
            if let Some(to) = site.0.lock().unwrap().take() {
                break to;
            }
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        };
        drop(stream);
        while !to.is_closed() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
