//! Writes: requests that the device looks through itself, so that no messages are made of them first.
//!
//! [`Front`] is the whole service. It answers `Write` with the request's bytes in hand, and leaves all else to the service that
//! is made of `proto/`.

use super::{REQUEST_BYTES_MAX, Service, failed};
use crate::device::Device;
use crate::proto::v1;
use crate::proto::v1::p4_runtime_server::P4RuntimeServer;
use prost::bytes::{Buf as _, Bytes};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http;
use tonic::codegen::{BoxFuture, Service as Answers};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// The path of `Write`.
const PATH: &str = "/p4.v1.P4Runtime/Write";

/// Does a write where it may wait; the answer goes out before what the client need not wait for is done.
pub(super) async fn done(
    device: &Arc<Device>,
    write: impl FnOnce(&Device) -> Result<v1::WriteResponse, Box<Status>> + Send + 'static,
) -> Result<Response<v1::WriteResponse>, Status> {
    let device = device.clone();
    let (answer, answered) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // If nobody waits for the answer any more, what was written is in force all the same.
        let _ = answer.send(write(&device));
        device.settle();
    });
    let done = answered.await.map_err(|_| failed(&"it has ended early"))?;
    done.map(Response::new).map_err(|status| *status)
}

/// The service of a device.
#[derive(Clone)]
pub(super) struct Front {
    device: Arc<Device>,
    others: P4RuntimeServer<Service>,
}

impl Front {
    pub(super) fn new(device: Arc<Device>) -> Front {
        let others = P4RuntimeServer::new(Service(device.clone()));
        Front { device, others: others.max_decoding_message_size(REQUEST_BYTES_MAX) }
    }
}

impl NamedService for Front {
    const NAME: &'static str = <P4RuntimeServer<Service> as NamedService>::NAME;
}

impl Answers<http::Request<Body>> for Front {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != PATH {
            return self.others.call(request);
        }
        let write = Write(self.device.clone());
        Box::pin(async move {
            let mut grpc = Grpc::new(Whole::default())
                .apply_max_message_size_config(Some(REQUEST_BYTES_MAX), None);
            Ok(grpc.unary(write, request).await)
        })
    }
}

/// `Write`
struct Write(Arc<Device>);

impl UnaryService<Bytes> for Write {
    type Response = v1::WriteResponse;
    type Future = BoxFuture<Response<v1::WriteResponse>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (device, bytes) = (self.0.clone(), request.into_inner());
        Box::pin(async move { done(&device, move |device| device.write_encoded(&bytes)).await })
    }
}

/// Requests stay bytes; answers are encoded.
#[derive(Default)]
struct Whole(ProstCodec<v1::WriteResponse, ()>);

impl Codec for Whole {
    type Encode = v1::WriteResponse;
    type Decode = Bytes;
    type Encoder = <ProstCodec<v1::WriteResponse, ()> as Codec>::Encoder;
    type Decoder = Whole;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Whole {
        Whole::default()
    }
}

impl Decoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = message.remaining();
        Ok(Some(message.copy_to_bytes(len)))
    }
}
