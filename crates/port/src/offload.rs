//! What a frame still owes: an unfinished checksum, or the cutting into segments.
//!
//! Linux hands frames over with such debts (`virtio_net_hdr`, virtio 1.2 §5.1.6), and takes them
//! back the same way; a switch that carries them on saves the work altogether. [`Offload`] is the
//! parsed form; [`from_vnet`](Offload::from_vnet) and [`to_vnet`](Offload::to_vnet) know the wire
//! layout, in the byte order of the machine as AF_PACKET and TAP use it.
//!
//! Invariant: `csum`'s start and `gso`'s header length count from the frame's first byte.
//! [`Frame::push_front`](crate::Frame::push_front) and `pull_front` shift them; whoever rewrites
//! bytes in another way calls [`Offload::shift`].
//!
//! A *partial* checksum field holds the sum of the pseudo-header, not its complement: who changes an
//! address under it adds the change instead of subtracting it.

/// Length of the header without and with `num_buffers`, in bytes.
pub const VNET_HDR_LEN: usize = 10;
/// Length of the header with `num_buffers`, in bytes.
pub const VNET_HDR_MRG_LEN: usize = 12;

const F_NEEDS_CSUM: u8 = 1;
const F_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_UDP: u8 = 3;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// What a frame still owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offload {
    /// The transport checksum.
    pub csum: Csum,
    /// Segmentation, when the frame stands for several.
    pub gso: Option<Gso>,
}

/// The state of the transport checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Csum {
    /// As it stands in the frame; nobody vouches for it.
    #[default]
    None,
    /// To be completed: the sum from `start` to the end of the frame belongs at `start + offset`,
    /// where the pseudo-header's sum stands now. Bytes from the frame's start.
    Partial {
        /// First byte covered.
        start: u16,
        /// The checksum field, from `start`.
        offset: u16,
    },
    /// The receiver has checked it, or need not.
    Valid,
}

/// Segmentation that is still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gso {
    /// Which protocol's rules cut it.
    pub kind: GsoKind,
    /// Payload bytes of each segment but the last.
    pub size: u16,
    /// Bytes of all headers through the transport's, as the sender hinted; may be 0 or wrong.
    pub hdr_len: u16,
    /// The first segment alone keeps CWR (RFC 3168 §6.1.2).
    pub ecn: bool,
}

/// Which protocol's rules cut a GSO frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP, each segment a datagram (`UDP_SEGMENT`).
    UdpL4,
    /// UDP, the segments are IP fragments (the old UFO).
    UdpFragment,
}

/// Why a virtio-net header makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VnetError {
    /// Too short.
    #[error("virtio-net header of {0} bytes, wanted at least {VNET_HDR_LEN}")]
    Short(usize),
    /// Unknown segmentation type.
    #[error("virtio-net gso_type {0}, wanted 0, 1, 3, 4 or 5, with 128 for ECN")]
    GsoType(u8),
    /// Segments without a size.
    #[error("virtio-net gso_type {0} with gso_size 0")]
    GsoSize(u8),
}

impl Offload {
    /// Nothing owed.
    pub const NONE: Offload = Offload { csum: Csum::None, gso: None };

    /// Whether a plain port could send the frame as it is.
    pub fn is_plain(&self) -> bool {
        self.gso.is_none() && !matches!(self.csum, Csum::Partial { .. })
    }

    /// Reads the header's first ten bytes, in native byte order.
    pub fn from_vnet(header: &[u8]) -> Result<Offload, VnetError> {
        let Some(h) = header.first_chunk::<VNET_HDR_LEN>() else {
            return Err(VnetError::Short(header.len()));
        };
        let word = |at: usize| u16::from_ne_bytes([h[at], h[at + 1]]);
        let csum = if h[0] & F_NEEDS_CSUM != 0 {
            Csum::Partial { start: word(6), offset: word(8) }
        } else if h[0] & F_DATA_VALID != 0 {
            Csum::Valid
        } else {
            Csum::None
        };
        let kind = match h[1] & !GSO_ECN {
            GSO_NONE => return Ok(Offload { csum, gso: None }),
            GSO_TCPV4 => GsoKind::TcpV4,
            GSO_TCPV6 => GsoKind::TcpV6,
            GSO_UDP_L4 => GsoKind::UdpL4,
            GSO_UDP => GsoKind::UdpFragment,
            _ => return Err(VnetError::GsoType(h[1])),
        };
        let size = word(4);
        if size == 0 {
            return Err(VnetError::GsoSize(h[1]));
        }
        let ecn = h[1] & GSO_ECN != 0;
        Ok(Offload { csum, gso: Some(Gso { kind, size, hdr_len: word(2), ecn }) })
    }

    /// Writes the header in native byte order; with `num_buffers` 0 at its end, so that the first
    /// ten bytes are the short form.
    pub fn to_vnet(self) -> [u8; VNET_HDR_MRG_LEN] {
        let mut h = [0; VNET_HDR_MRG_LEN];
        match self.csum {
            Csum::None => {}
            Csum::Valid => h[0] = F_DATA_VALID,
            Csum::Partial { start, offset } => {
                h[0] = F_NEEDS_CSUM;
                h[6..8].copy_from_slice(&start.to_ne_bytes());
                h[8..10].copy_from_slice(&offset.to_ne_bytes());
            }
        }
        if let Some(gso) = self.gso {
            let kind = match gso.kind {
                GsoKind::TcpV4 => GSO_TCPV4,
                GsoKind::TcpV6 => GSO_TCPV6,
                GsoKind::UdpL4 => GSO_UDP_L4,
                GsoKind::UdpFragment => GSO_UDP,
            };
            h[1] = kind | if gso.ecn { GSO_ECN } else { 0 };
            h[2..4].copy_from_slice(&gso.hdr_len.to_ne_bytes());
            h[4..6].copy_from_slice(&gso.size.to_ne_bytes());
        }
        h
    }

    /// Accounts for `by` bytes inserted (positive) or removed (negative) before the transport
    /// header. A checksum whose start would leave the frame is forgotten: the bytes it covered are
    /// gone.
    pub fn shift(&mut self, by: isize) {
        let moved = |at: u16| u16::try_from(isize::try_from(at).ok()?.checked_add(by)?).ok();
        if let Csum::Partial { start, offset } = self.csum {
            self.csum = moved(start).map_or(Csum::None, |start| Csum::Partial { start, offset });
        }
        if let Some(gso) = &mut self.gso
            && gso.hdr_len != 0
        {
            gso.hdr_len = moved(gso.hdr_len).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_every_shape() {
        let csums = [Csum::None, Csum::Valid, Csum::Partial { start: 34, offset: 16 }];
        let kinds = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpL4, GsoKind::UdpFragment];
        for csum in csums {
            for ecn in [false, true] {
                for kind in kinds {
                    let gso = Some(Gso { kind, size: 1448, hdr_len: 66, ecn });
                    let offload = Offload { csum, gso };
                    assert_eq!(Offload::from_vnet(&offload.to_vnet()), Ok(offload));
                }
            }
            let offload = Offload { csum, gso: None };
            assert_eq!(Offload::from_vnet(&offload.to_vnet()[..VNET_HDR_LEN]), Ok(offload));
        }
    }

    #[test]
    fn refuses_nonsense() {
        assert_eq!(Offload::from_vnet(&[0; 9]), Err(VnetError::Short(9)));
        let mut h = [0u8; 12];
        h[1] = 2;
        assert_eq!(Offload::from_vnet(&h), Err(VnetError::GsoType(2)));
        h[1] = GSO_TCPV4;
        assert_eq!(Offload::from_vnet(&h), Err(VnetError::GsoSize(1)));
    }

    #[test]
    fn shifts_follow_the_headers() {
        let gso = Gso { kind: GsoKind::TcpV4, size: 1448, hdr_len: 66, ecn: false };
        let mut o = Offload { csum: Csum::Partial { start: 34, offset: 16 }, gso: Some(gso) };
        o.shift(4);
        assert_eq!(o.csum, Csum::Partial { start: 38, offset: 16 });
        assert_eq!(o.gso.unwrap().hdr_len, 70);
        o.shift(-39);
        assert_eq!(o.csum, Csum::None);
        o.shift(isize::MAX);
        assert_eq!(o.gso.unwrap().hdr_len, 0);
    }
}
