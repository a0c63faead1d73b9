//! A client of P4Runtime that waits for each answer, as controllers' clients do.
//!
//! Requests are encoded before they are timed, so that what is measured is the server's. Answers to reads are decoded
//! while they are timed: a client has nothing of them before.

use control::failure::Failure;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use p4_runtime::proto::v1;
use prost::Message;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Request};

/// Octets that the server may send before the client has taken them.
const WINDOW: u32 = 64 << 20;
/// In front of each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A message as it goes over the connection.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut out = Vec::with_capacity(PREFIX + len);
    out.push(0);
    out.extend((len as u32).to_be_bytes());
    out.extend(message.encode_to_vec());
    out.into()
}

/// A connection, and its stream.
pub(super) struct Client {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    authority: String,
    /// The stream of the primary is open as long as this is here.
    stream: Option<(SendStream<Bytes>, RecvStream)>,
}

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::Bad(format!("P4Runtime: {what}"))
}

/// The status in headers or trailers; an error if it is one.
fn status(headers: &HeaderMap) -> Option<Result<(), Failure>> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    match text("grpc-status")? {
        "0" => Some(Ok(())),
        code => {
            let message = text("grpc-message").unwrap_or_default();
            Some(Err(failed(format_args!("status {code}: {message}"))))
        }
    }
}

impl Client {
    /// Connects.
    pub(super) fn connect(address: SocketAddr) -> Result<Client, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(Failure::bad)?;
        let requests = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.map_err(failed)?;
            socket.set_nodelay(true).map_err(failed)?;
            let mut builder = h2::client::Builder::new();
            builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
            let (requests, connection) = builder.handshake(socket).await.map_err(failed)?;
            // Its end shows in the requests.
            tokio::spawn(connection);
            Ok::<_, Failure>(requests)
        })?;
        Ok(Client { runtime, requests, authority: address.to_string(), stream: None })
    }

    async fn begin(
        requests: &SendRequest<Bytes>,
        authority: &str,
        method: &str,
        body: Bytes,
        last: bool,
    ) -> Result<(SendStream<Bytes>, RecvStream, bool), Failure> {
        let uri = format!("http://{authority}/p4.v1.P4Runtime/{method}");
        let request = Request::post(uri)
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(())
            .map_err(failed)?;
        let mut ready = requests.clone().ready().await.map_err(failed)?;
        let (response, mut out) = ready.send_request(request, false).map_err(failed)?;
        out.send_data(body, last).map_err(failed)?;
        let response = response.await.map_err(failed)?;
        let over = match status(response.headers()) {
            Some(done) => done.map(|()| true)?,
            None => false,
        };
        Ok((out, response.into_body(), over))
    }

    /// Calls a method: the messages of its answer, one after another.
    fn call(
        &self,
        method: &str,
        body: Bytes,
        take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (requests, authority) = (&self.requests, &self.authority);
        self.runtime.block_on(async {
            let (_, mut from, over) = Self::begin(requests, authority, method, body, true).await?;
            let mut messages = Messages { held: Vec::new(), take };
            while let Some(piece) = from.data().await {
                let piece = piece.map_err(failed)?;
                from.flow_control().release_capacity(piece.len()).map_err(failed)?;
                messages.more(&piece)?;
            }
            if over {
                return Ok(());
            }
            let trailers = from.trailers().await.map_err(failed)?.unwrap_or_default();
            status(&trailers).unwrap_or_else(|| Err(failed("an answer has no status")))
        })
    }

    /// Becomes primary, with the election id 1.
    pub(super) fn arbitrate(&mut self) -> Result<(), Failure> {
        let said = v1::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            ..v1::MasterArbitrationUpdate::default()
        };
        let said = v1::StreamMessageRequest {
            update: Some(v1::stream_message_request::Update::Arbitration(said)),
        };
        let (requests, authority) = (&self.requests, &self.authority);
        let stream = self.runtime.block_on(async {
            let begun = Self::begin(requests, authority, "StreamChannel", framed(&said), false);
            let (out, mut from, _) = begun.await?;
            let piece = from.data().await.ok_or_else(|| failed("the stream has ended"))?;
            let piece = piece.map_err(failed)?;
            let told = piece.get(PREFIX..).unwrap_or_default();
            let told = v1::StreamMessageResponse::decode(told).map_err(failed)?;
            match told.update {
                Some(v1::stream_message_response::Update::Arbitration(told))
                    if told.status.as_ref().is_none_or(|s| s.code == 0) =>
                {
                    Ok((out, from))
                }
                other => Err(failed(format_args!("this client is not primary: {other:?}"))),
            }
        })?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Writes; a request that [`framed`] has made.
    pub(super) fn write(&self, request: &Bytes) -> Result<(), Failure> {
        self.call("Write", request.clone(), |_| Ok(()))
    }

    /// Pushes a pipeline; a request that [`framed`] has made.
    pub(super) fn push(&self, request: &Bytes) -> Result<(), Failure> {
        self.call("SetForwardingPipelineConfig", request.clone(), |_| Ok(()))
    }

    /// Reads.
    pub(super) fn read(&self, request: &v1::ReadRequest) -> Result<Vec<v1::Entity>, Failure> {
        let mut all = Vec::new();
        self.call("Read", framed(request), |message| {
            all.extend(v1::ReadResponse::decode(message).map_err(failed)?.entities);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Messages of an answer, which come in pieces.
struct Messages<F> {
    held: Vec<u8>,
    take: F,
}

impl<F: FnMut(&[u8]) -> Result<(), Failure>> Messages<F> {
    fn more(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.held.extend(piece);
        let mut from = 0;
        while let Some(head) = self.held.get(from..from + PREFIX) {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let begins = from + PREFIX;
            let Some(message) = self.held.get(begins..begins + len) else { break };
            (self.take)(message)?;
            from = begins + len;
        }
        self.held.drain(..from);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_any_pieces() {
        let all: Vec<v1::Uint128> = [0, 1, 300].map(|low| v1::Uint128 { high: 0, low }).to_vec();
        let bytes: Vec<u8> = all.iter().flat_map(|m| framed(m).to_vec()).collect();
        for size in 1..=bytes.len() {
            let mut told = Vec::new();
            let take = |m: &[u8]| {
                told.push(v1::Uint128::decode(m).map_err(failed)?);
                Ok(())
            };
            let mut messages = Messages { held: Vec::new(), take };
            bytes.chunks(size).for_each(|piece| messages.more(piece).unwrap());
            assert!(messages.held.is_empty());
            assert_eq!(told, all, "pieces of {size}");
        }
    }
}
