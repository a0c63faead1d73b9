//! Packets of the controller's, with their header in front (P4Runtime §16): on their way between a stream and the CPU port.

use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::{Param, Schema};
use ir::Bits;

/// Bytes of a packet with its header, at most.
pub const BYTES_MAX: usize = 9216;

/// The headers in front of packets. Without one nothing stands in front.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    packet_in: Vec<Param>,
    packet_out: Vec<Param>,
}

fn bits(fields: &[Param]) -> usize {
    fields.iter().map(|f| f.width as usize).sum()
}

impl Headers {
    /// Those of a program.
    pub fn of(schema: &Schema) -> Headers {
        Headers {
            packet_in: schema.packet_in.clone().unwrap_or_default(),
            packet_out: schema.packet_out.clone().unwrap_or_default(),
        }
    }

    /// What came out of the CPU port; nothing if it is shorter than its header.
    pub fn packet_in(&self, bytes: &[u8]) -> Option<v1::PacketIn> {
        let header = bits(&self.packet_in) / 8;
        let payload = bytes.get(header..)?.to_vec();
        let mut at = 0;
        let field = |f: &Param| {
            let value = Bits::extract(bytes, at, f.width);
            at += f.width as usize;
            v1::PacketMetadata { metadata_id: f.id, value: f.sdn.write(&value) }
        };
        Some(v1::PacketIn { payload, metadata: self.packet_in.iter().map(field).collect() })
    }

    /// What goes into the CPU port.
    pub fn packet_out(&self, packet: &v1::PacketOut) -> Result<Vec<u8>, Fault> {
        let fields = &self.packet_out;
        if let Some(m) =
            packet.metadata.iter().find(|m| fields.iter().all(|f| f.id != m.metadata_id))
        {
            let known: Vec<String> =
                fields.iter().map(|f| format!("{} ({})", f.id, f.name)).collect();
            return Err(fault!(
                InvalidArgument,
                "packet_out has no metadata with the id {}; it has {}",
                m.metadata_id,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ));
        }
        let mut bytes = vec![0; bits(fields) / 8];
        let mut at = 0;
        for f in fields {
            let mut given = packet.metadata.iter().filter(|m| m.metadata_id == f.id);
            let wrong = |what: &str| {
                fault!(InvalidArgument, "packet_out, metadata {} (`{}`) {what}", f.id, f.name)
            };
            let value = match (given.next(), given.next()) {
                (Some(m), None) => f.sdn.read(&m.value, f.width),
                (None, _) => return Err(wrong("is missing")),
                _ => return Err(wrong("is there twice")),
            };
            let value = value.map_err(|e| wrong(&e.to_string()))?;
            value.deposit(&mut bytes, at);
            at += f.width as usize;
        }
        bytes.extend_from_slice(&packet.payload);
        match bytes.len() > BYTES_MAX {
            true => Err(fault!(
                InvalidArgument,
                "packet_out: {} bytes with its header; {BYTES_MAX} is the most",
                bytes.len()
            )),
            false => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Headers {
        let field = |id, name: &str, width| Param {
            id,
            name: name.to_owned(),
            width,
            sdn: crate::translation::Sdn::Plain,
        };
        let port = vec![field(1, "port", 9), field(2, "_pad", 7)];
        Headers { packet_in: port.clone(), packet_out: port }
    }

    fn out(metadata: &[(u32, &[u8])]) -> v1::PacketOut {
        let metadata = metadata
            .iter()
            .map(|(id, value)| v1::PacketMetadata { metadata_id: *id, value: value.to_vec() });
        v1::PacketOut { payload: b"payload".to_vec(), metadata: metadata.collect() }
    }

    #[test]
    fn headers_are_read_and_written() {
        let bytes = headers().packet_out(&out(&[(2, &[0]), (1, &[1, 0x03])])).unwrap();
        assert_eq!(bytes, b"\x81\x80payload");
        let packet = headers().packet_in(&bytes).unwrap();
        assert_eq!(packet.payload, b"payload");
        let told: Vec<(u32, Vec<u8>)> =
            packet.metadata.into_iter().map(|m| (m.metadata_id, m.value)).collect();
        assert_eq!(told, [(1, vec![1, 3]), (2, vec![0])]);
        assert!(headers().packet_in(&[0x81]).is_none());
        // Without headers a packet is what it is.
        let plain = Headers::default();
        assert_eq!(plain.packet_in(b"x").unwrap().payload, b"x");
        assert_eq!(plain.packet_out(&out(&[])).unwrap(), b"payload");
    }

    #[test]
    fn wrong_metadata_is_refused() {
        let text = |m: &[(u32, &[u8])]| headers().packet_out(&out(m)).unwrap_err().text;
        assert_eq!(text(&[(1, &[1])]), "packet_out, metadata 2 (`_pad`) is missing");
        assert_eq!(
            text(&[(1, &[4, 0]), (2, &[0])]),
            "packet_out, metadata 1 (`port`) needs 11 bits; the width is 9"
        );
        assert_eq!(
            text(&[(7, &[1])]),
            "packet_out has no metadata with the id 7; it has 1 (port), 2 (_pad)"
        );
        assert!(text(&[(1, &[1]), (1, &[1]), (2, &[0])]).ends_with("is there twice"));
        let long = v1::PacketOut { payload: vec![0; BYTES_MAX + 1], metadata: Vec::new() };
        assert!(Headers::default().packet_out(&long).unwrap_err().text.contains("is the most"));
    }
}
