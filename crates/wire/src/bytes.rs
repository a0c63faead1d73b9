//! Reading and writing fields in network order, and the macros that make views of them.
//!
//! A checked view never reads outside its buffer; should its length fields be changed under it, a
//! read outside yields zero and a write outside is dropped, so nothing here can panic.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{Error, EtherType, IpProtocol, MacAddr};

/// A field of fixed width, stored in network order.
pub(crate) trait Field: Sized {
    fn get(bytes: &[u8], at: usize) -> Self;
    fn put(self, bytes: &mut [u8], at: usize);
}

/// The `N` octets at `at`; zeros when they are not all there.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Stores `value` at `at`; does nothing when there is no room for all of it.
pub(crate) fn store(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = at.checked_add(value.len()).and_then(|end| bytes.get_mut(at..end)) {
        place.copy_from_slice(value);
    }
}

/// `bytes[from..to]`, with both ends clamped to what is there.
#[inline]
pub(crate) fn span(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(bytes.len());
    &bytes[from.min(to)..to]
}

/// As [`span`], to be written to.
pub(crate) fn span_mut(bytes: &mut [u8], from: usize, to: usize) -> &mut [u8] {
    let to = to.min(bytes.len());
    &mut bytes[from.min(to)..to]
}

/// Refuses `bytes` shorter than `need`.
#[inline]
pub(crate) fn need(what: &'static str, bytes: &[u8], need: usize) -> Result<(), Error> {
    if bytes.len() < need {
        return Err(Error::Truncated { what, need, have: bytes.len() });
    }
    Ok(())
}

/// The first `need` octets of `out`, zeroed, for a header to be written to.
pub(crate) fn room<'a>(
    what: &'static str,
    out: &'a mut [u8],
    need: usize,
) -> Result<&'a mut [u8], Error> {
    let have = out.len();
    let place = out.get_mut(..need).ok_or(Error::NoRoom { what, need, have })?;
    place.fill(0);
    Ok(place)
}

/// Refuses a `value` above `max`.
pub(crate) fn fits(
    what: &'static str,
    field: &'static str,
    value: u64,
    max: u64,
) -> Result<(), Error> {
    if value > max {
        return Err(Error::TooLarge { what, field, value, max });
    }
    Ok(())
}

macro_rules! integer_field {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            #[inline]
            fn get(bytes: &[u8], at: usize) -> Self {
                Self::from_be_bytes(array(bytes, at))
            }
            fn put(self, bytes: &mut [u8], at: usize) {
                store(bytes, at, &self.to_be_bytes());
            }
        }
    )*};
}
integer_field!(u8, u16, u32, u64);

impl Field for MacAddr {
    fn get(bytes: &[u8], at: usize) -> Self {
        MacAddr(array(bytes, at))
    }
    fn put(self, bytes: &mut [u8], at: usize) {
        store(bytes, at, &self.0);
    }
}

impl Field for Ipv4Addr {
    fn get(bytes: &[u8], at: usize) -> Self {
        Ipv4Addr::from(array::<4>(bytes, at))
    }
    fn put(self, bytes: &mut [u8], at: usize) {
        store(bytes, at, &self.octets());
    }
}

impl Field for Ipv6Addr {
    fn get(bytes: &[u8], at: usize) -> Self {
        Ipv6Addr::from(array::<16>(bytes, at))
    }
    fn put(self, bytes: &mut [u8], at: usize) {
        store(bytes, at, &self.octets());
    }
}

impl Field for EtherType {
    fn get(bytes: &[u8], at: usize) -> Self {
        EtherType(u16::get(bytes, at))
    }
    fn put(self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

impl Field for IpProtocol {
    fn get(bytes: &[u8], at: usize) -> Self {
        IpProtocol(u8::get(bytes, at))
    }
    fn put(self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

/// Declares a view and what every view has: `new_checked`, `check`, `into_inner`, the raw bytes.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident, $check:path) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<T> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// Wraps `buffer` if [`check`](Self::check) passes.
            ///
            /// # Errors
            /// Those of [`check`](Self::check).
            pub fn new_checked(buffer: T) -> Result<Self, $crate::Error> {
                let view = Self { buffer };
                view.check()?;
                Ok(view)
            }

            /// Whether every length that the accessors depend on holds within the buffer.
            ///
            /// # Errors
            /// [`Truncated`](crate::Error::Truncated) when the buffer ends too early,
            /// [`Field`](crate::Error::Field) or [`Malformed`](crate::Error::Malformed) when a
            /// field contradicts the format.
            pub fn check(&self) -> Result<(), $crate::Error> {
                $check(self.buffer.as_ref())
            }

            /// The buffer, given back.
            pub fn into_inner(self) -> T {
                self.buffer
            }

            /// All bytes of the buffer, from the header's first on.
            pub fn as_bytes(&self) -> &[u8] {
                self.buffer.as_ref()
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            /// All bytes of the buffer, to be written to. [`check`](Self::check) afterwards if
            /// length fields may have changed.
            pub fn as_bytes_mut(&mut self) -> &mut [u8] {
                self.buffer.as_mut()
            }
        }
    };
}

/// Getters and setters of whole fields: `name, set_name: Type @ offset;`.
macro_rules! fields {
    ($name:ident { $( $(#[$meta:meta])* $get:ident, $set:ident: $ty:ident @ $at:expr; )* }) => {
        impl<T: AsRef<[u8]>> $name<T> {
            $(
                $(#[$meta])*
                pub fn $get(&self) -> $ty {
                    <$ty as $crate::bytes::Field>::get(self.buffer.as_ref(), $at)
                }
            )*
        }
        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            $(
                #[doc = concat!("Writes [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                pub fn $set(&mut self, value: $ty) {
                    $crate::bytes::Field::put(value, self.buffer.as_mut(), $at);
                }
            )*
        }
    };
}

/// Getters and setters of parts of a word: `name, set_name: word @ offset, shift, mask;`. Bits of
/// a value beyond the mask are dropped.
macro_rules! bits {
    ($name:ident {
        $( $(#[$meta:meta])* $get:ident, $set:ident: $ty:ident @ $at:expr, $shift:expr, $mask:expr; )*
    }) => {
        impl<T: AsRef<[u8]>> $name<T> {
            $(
                $(#[$meta])*
                pub fn $get(&self) -> $ty {
                    (<$ty as $crate::bytes::Field>::get(self.buffer.as_ref(), $at) >> $shift) & $mask
                }
            )*
        }
        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            $(
                #[doc = concat!(
                    "Writes [`", stringify!($get), "`](Self::", stringify!($get),
                    "); bits beyond its width are dropped."
                )]
                pub fn $set(&mut self, value: $ty) {
                    let mask: $ty = $mask;
                    let word = <$ty as $crate::bytes::Field>::get(self.buffer.as_ref(), $at);
                    let word = (word & !(mask << $shift)) | ((value & mask) << $shift);
                    $crate::bytes::Field::put(word, self.buffer.as_mut(), $at);
                }
            )*
        }
    };
}

/// Getters and setters of single bits of an octet: `name, set_name @ offset, mask;`.
macro_rules! flags {
    ($name:ident { $( $(#[$meta:meta])* $get:ident, $set:ident @ $at:expr, $mask:expr; )* }) => {
        impl<T: AsRef<[u8]>> $name<T> {
            $(
                $(#[$meta])*
                pub fn $get(&self) -> bool {
                    <u8 as $crate::bytes::Field>::get(self.buffer.as_ref(), $at) & $mask != 0
                }
            )*
        }
        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            $(
                #[doc = concat!("Writes [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                pub fn $set(&mut self, value: bool) {
                    let octet = <u8 as $crate::bytes::Field>::get(self.buffer.as_ref(), $at);
                    let octet = if value { octet | $mask } else { octet & !$mask };
                    $crate::bytes::Field::put(octet, self.buffer.as_mut(), $at);
                }
            )*
        }
    };
}

pub(crate) use {bits, fields, flags, view};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_reads_zero_and_writes_nothing() {
        let mut bytes = [1, 2, 3];
        assert_eq!(u16::get(&bytes, 1), 0x0203);
        assert_eq!(u16::get(&bytes, 2), 0);
        assert_eq!(u32::get(&bytes, usize::MAX), 0);
        0xffff_u16.put(&mut bytes, 2);
        0xffff_u16.put(&mut bytes, usize::MAX);
        assert_eq!(bytes, [1, 2, 3]);
        assert_eq!(span(&bytes, 2, 99), &[3]);
        assert_eq!(span(&bytes, 9, 2), &[] as &[u8]);
        assert_eq!(span_mut(&mut bytes, 9, 99), &mut [] as &mut [u8]);
    }

    #[test]
    fn room_is_zeroed_and_exact() {
        let mut bytes = [9; 4];
        assert_eq!(room("x", &mut bytes, 2).unwrap(), &mut [0, 0]);
        assert_eq!(bytes, [0, 0, 9, 9]);
        assert_eq!(room("x", &mut bytes, 5), Err(Error::NoRoom { what: "x", need: 5, have: 4 }));
    }
}
