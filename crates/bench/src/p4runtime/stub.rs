//! A server that decodes what it gets and says that it is done: what no server can be faster than, with the same library.

use control::failure::Failure;
use grpc::{Bind, Server, Services};
use p4_runtime::proto::v1;
use p4_runtime::proto::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use p4_runtime::server::REQUEST_BYTES_MAX;
use std::net::SocketAddr;
use tokio_stream::Empty;
use tonic::{Request, Response, Status, Streaming};

/// Starts one, which goes with what this returns.
pub(super) fn start(address: SocketAddr) -> Result<Server, Failure> {
    let service = P4RuntimeServer::new(Stub).max_decoding_message_size(REQUEST_BYTES_MAX);
    let services = Services::default().with(service);
    Server::start(address, "the stub", Bind::Now, None, services).map_err(Failure::bad)
}

struct Stub;

fn no<T>(what: &str) -> Result<T, Status> {
    Err(Status::unimplemented(format!("the stub only takes writes, no {what}")))
}

#[tonic::async_trait]
impl P4Runtime for Stub {
    type ReadStream = Empty<Result<v1::ReadResponse, Status>>;
    type StreamChannelStream = Empty<Result<v1::StreamMessageResponse, Status>>;

    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        match request.into_inner().updates.is_empty() {
            true => Err(Status::invalid_argument("the write is empty")),
            false => Ok(Response::new(v1::WriteResponse {})),
        }
    }

    async fn read(
        &self,
        _: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        no("reads")
    }

    async fn set_forwarding_pipeline_config(
        &self,
        _: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::SetForwardingPipelineConfigResponse>, Status> {
        no("pipelines")
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::GetForwardingPipelineConfigResponse>, Status> {
        no("pipelines")
    }

    async fn stream_channel(
        &self,
        _: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        no("streams")
    }

    async fn capabilities(
        &self,
        _: Request<v1::CapabilitiesRequest>,
    ) -> Result<Response<v1::CapabilitiesResponse>, Status> {
        no("questions")
    }
}
