//! The service: frames of one client at a time, and whether ports are up.

use super::ports::{Ports, Told};
use super::proto::dataplane_interface_server::DataplaneInterface;
use super::proto::{
    PacketStreamRequest, PortOperStatus, SetPortOperStatusRequest, SetPortOperStatusResponse,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

/// Frames that wait for the client, at most.
const WAITING: usize = 4096;
/// A client that has sent all it had may have what comes out until it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(100);

/// The service of some ports.
pub(super) struct Dataplane {
    device_id: u64,
    ports: Arc<Ports>,
}

impl Dataplane {
    pub(super) fn new(device_id: u64, ports: Arc<Ports>) -> Dataplane {
        Dataplane { device_id, ports }
    }

    fn is_ours(device_id: u64, named: u64) -> Result<(), Status> {
        match named == device_id {
            true => Ok(()),
            false => Err(Status::invalid_argument(format!(
                "there is no device {named}; this is device {device_id}"
            ))),
        }
    }

    fn no_port(ports: &Ports, named: u32) -> Status {
        let all: Vec<String> = ports.numbers().iter().map(u32::to_string).collect();
        let all = all.join(", ");
        Status::invalid_argument(format!("there is no port {named}; there are ports {all}"))
    }
}

/// Lets a port receive what a request holds.
fn receive(ports: &Ports, device_id: u64, request: &PacketStreamRequest) -> Result<(), Status> {
    Dataplane::is_ours(device_id, request.device_id)?;
    let far = ports.far(request.port);
    let far = far.ok_or_else(|| Dataplane::no_port(ports, request.port))?;
    if request.packet.is_empty() {
        return Err(Status::invalid_argument("a packet has one byte at least"));
    }
    match ports.receive(far, request.id, &request.packet) {
        true => Ok(()),
        false => Err(Status::resource_exhausted(format!(
            "port {} has no room for more frames; send slower",
            request.port
        ))),
    }
}

/// Takes what a client says until it has said all and the ports are quiet, or is gone.
async fn serve(
    ports: Arc<Ports>,
    device_id: u64,
    mut said: Streaming<PacketStreamRequest>,
    tell: mpsc::Sender<Told>,
) {
    loop {
        match said.next().await {
            Some(Ok(request)) => {
                if let Err(status) = receive(&ports, device_id, &request) {
                    // Whoever has gone is told nothing.
                    let _ = tell.send(Err(status)).await;
                    break;
                }
            }
            Some(Err(_)) => break,
            None => {
                tokio::time::sleep(QUIET).await;
                while ports.quiet() < QUIET {
                    tokio::time::sleep(QUIET / 4).await;
                }
                break;
            }
        }
    }
    ports.take_back();
}

type Streamed = Pin<Box<dyn Stream<Item = Told> + Send>>;

#[tonic::async_trait]
impl DataplaneInterface for Dataplane {
    type PacketStreamStream = Streamed;

    async fn packet_stream(
        &self,
        request: Request<Streaming<PacketStreamRequest>>,
    ) -> Result<Response<Streamed>, Status> {
        let (tell, told) = mpsc::channel(WAITING);
        if !self.ports.give_to(tell.clone()) {
            return Err(Status::resource_exhausted(
                "another client has the ports; one may at a time",
            ));
        }
        tokio::spawn(serve(self.ports.clone(), self.device_id, request.into_inner(), tell));
        let device_id = self.device_id;
        let told = ReceiverStream::new(told).map(move |told: Told| {
            told.map(|response| super::proto::PacketStreamResponse { device_id, ..response })
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn set_port_oper_status(
        &self,
        request: Request<SetPortOperStatusRequest>,
    ) -> Result<Response<SetPortOperStatusResponse>, Status> {
        let request = request.into_inner();
        Dataplane::is_ours(self.device_id, request.device_id)?;
        let far = self.ports.far(request.port);
        let far = far.ok_or_else(|| Dataplane::no_port(&self.ports, request.port))?;
        match request.oper_status() {
            PortOperStatus::OperStatusUp => far.set_carrier(true),
            PortOperStatus::OperStatusDown => far.set_carrier(false),
            PortOperStatus::OperStatusUnknown => {
                let text = format!("oper_status {}: up or down was expected", request.oper_status);
                return Err(Status::invalid_argument(text));
            }
        }
        Ok(Response::new(SetPortOperStatusResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Burst, Pool, Port as _};

    fn bed(name: &str) -> (Dataplane, port::memory::Memory) {
        let ports = Arc::new(Ports::attach(&[(9, name.to_owned())]).unwrap());
        (Dataplane::new(3, ports), port::memory::open(name).unwrap())
    }

    fn frame(device_id: u64, port: u32, packet: &[u8]) -> PacketStreamRequest {
        PacketStreamRequest { id: 42, device_id, port, packet: packet.to_vec() }
    }

    #[test]
    fn frames_pass_both_ways_however_short() {
        let (service, mut near) = bed("bmv2-short");
        let (tell, mut told) = mpsc::channel(8);
        assert!(service.ports.give_to(tell.clone()) && !service.ports.give_to(tell));
        receive(&service.ports, 3, &frame(3, 9, &[7; 2])).unwrap();
        let (mut burst, mut pool) = (Burst::new(), Pool::new());
        near.rx_queue(0).unwrap().rx(&mut burst, &mut pool).unwrap();
        let mut tx = near.tx_queue().unwrap();
        tx.tx(&burst.frames()[0]).unwrap();
        tx.flush();
        let ports = service.ports.clone();
        let sending = std::thread::spawn(move || ports.send());
        let response = told.blocking_recv().unwrap().unwrap();
        assert_eq!((response.id, response.port, response.packet), (42, 9, vec![7; 2]));
        service.ports.take_back();
        tx.tx(&burst.frames()[0]).unwrap();
        tx.flush();
        while service.ports.lost() == 0 {
            std::thread::yield_now();
        }
        service.ports.end();
        sending.join().unwrap();
    }

    #[test]
    fn what_is_wrong_is_named() {
        let (service, near) = bed("bmv2-wrong");
        let text = |request| receive(&service.ports, 3, &request).unwrap_err().message().to_owned();
        assert_eq!(text(frame(4, 9, &[1])), "there is no device 4; this is device 3");
        assert_eq!(text(frame(3, 8, &[1])), "there is no port 8; there are ports 9");
        assert_eq!(text(frame(3, 9, &[])), "a packet has one byte at least");
        let full = (0..5000).find_map(|_| receive(&service.ports, 3, &frame(3, 9, &[1])).err());
        assert!(full.unwrap().message().contains("no room for more frames"));
        drop(near);
    }

    #[tokio::test]
    async fn ports_go_down_and_up() {
        let (service, mut near) = bed("bmv2-status");
        let set = |port, oper_status| {
            let request = SetPortOperStatusRequest { device_id: 3, port, oper_status };
            service.set_port_oper_status(Request::new(request))
        };
        set(9, 1).await.unwrap();
        assert!(!near.link().is_up());
        set(9, 2).await.unwrap();
        assert!(near.link().is_up());
        assert!(set(9, 0).await.unwrap_err().message().contains("up or down"));
        assert!(set(1, 2).await.unwrap_err().message().contains("there is no port 1"));
    }
}
