//! The crypto transcoder: AES on the payloads of TCP and UDP, in place, headers untouched (SoftFlow's
//! pipeline B).
//!
//! In: packets whose payload is to be encrypted or decrypted. Out: the same packets, of the same length,
//! their TCP or UDP checksum as right, or as wrong, as before: it follows the change and is not computed anew,
//! so that a packet that was broken on its way stays known as broken. A checksum left to the sender's
//! hardware stays left to it, UDP's zero stays zero.
//!
//! # CBC
//!
//! The payload keeps its length: whole blocks are plain CBC, and where octets are left over, the last two
//! blocks are those of ciphertext stealing (CBC-CS2 of the addendum to NIST SP 800-38A, which is CBC-CS3
//! and so RFC 3962's whenever something is left over). A payload below one block is left as it is.
//!
//! There is no room for an initialization vector, so both ends derive it: a CBC-MAC, under a key of its own
//! made from the key, of the fields that both ends see: protocol, payload length, addresses, ports, TCP's
//! sequence number, IPv4's identification. So between the two ends nothing may translate addresses or cut
//! segments anew. Nobody without the key can foretell a vector, but packets that agree in all these fields
//! have the same one, and of such packets, observers see how many leading blocks agree. That is so for
//! UDP over IPv6, and over IPv4 if the sender leaves the identification zero. CBC protects against readers
//! only: who changes ciphertext changes what is decrypted, and nobody notices.
//!
//! # GCM
//!
//! Nonce and tag need room, and a frame cannot grow here: the *sender leaves [`GCM_ROOM`] octets* at the end of the payload,
//! whatever is in them; they are overwritten with the nonce (12 octets) and the tag (16). Decryption
//! puts zeros there. A packet whose tag is wrong is dropped. Nonces are 64 bits that are the instance's,
//! drawn from its seed, and a count of its packets; after 2³² packets it draws anew. No headers are authenticated, since
//! they may change on the way, and repeated packets pass again.
//!
//! # What is left as it is
//!
//! Fragments, protocols other than TCP and UDP, malformed headers, and payloads without enough octets:
//! counted, with `sf_metadata` 0, for the tables to judge; dropped, if so configured. A fail-safe
//! pipeline lets out only what has `sf_metadata` 1.
//!
//! # Cost
//!
//! CBC cannot encrypt a packet's blocks side by side, so a burst's packets go side by side instead;
//! decryption goes side by side within a packet. AES instructions are found at run time: by the crate `aes`
//! for CBC, by `ring` for GCM. The vector ones serve GCM and CBC's decryption of long payloads. How fast:
//! `examples/figures`.
//!
//! Invariants: nothing but payload and checksum is written. Checked by: the tests below, which take the
//! vectors of NIST and RFC 3962 through the element; `fuzz::transcode`.

use crate::element::{Element, Fate, Instance, Passing, Writes};
use crate::hash::fold;
use crate::packet::{Checksum, Fragment, Network, Packet};
use crate::random::Random;
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
};
use aes::{Aes128, Aes256};
use ring::aead;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use wire::IpProtocol;
use wire::checksum::{self, Delta};

/// Octets of a block.
const BLOCK: usize = 16;
/// Octets of GCM's nonce and tag.
const NONCE: usize = 12;
const TAG: usize = 16;
/// Octets that GCM's sender leaves at the end of a payload.
pub const GCM_ROOM: usize = NONCE + TAG;

/// A key, of AES-128 or AES-256. It is not shown.
#[derive(Clone)]
pub enum Key {
    /// AES-128.
    Aes128([u8; 16]),
    /// AES-256.
    Aes256([u8; 32]),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Key::Aes128(_) => "Aes128(..)",
            Key::Aes256(_) => "Aes256(..)",
        })
    }
}

/// The mode of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// With ciphertext stealing and a derived vector.
    Cbc,
    /// In payloads that leave room.
    Gcm,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Payloads become secret.
    Encrypt,
    /// They become readable.
    Decrypt,
}

/// Encrypts or decrypts payloads, as this module says.
///
/// Reads nothing of `sf_argument`. Writes payloads and their checksums, and into `sf_metadata` 1 if it has
/// encrypted or decrypted the packet, 0 if it has left it as it was; sets `coalesce`. Drops packets whose
/// tag is wrong, and if [told to](Transcoder::dropping) those that it would leave, but for empty payloads. Counts
/// packets (`transcoded`) and octets of payload (`octets`); those left: `empty`, `too_short`,
/// `fragments`, `others` (neither TCP nor UDP, or malformed); and `forged`.
#[derive(Debug, Clone)]
pub struct Transcoder {
    cipher: Cipher,
    direction: Direction,
    drops: bool,
}

#[derive(Clone)]
enum Cipher {
    Cbc128(Arc<Cbc<Aes128>>),
    Cbc256(Arc<Cbc<Aes256>>),
    Gcm(Arc<aead::LessSafeKey>),
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cipher::Cbc128(_) => "Cbc128",
            Cipher::Cbc256(_) => "Cbc256",
            Cipher::Gcm(_) => "Gcm",
        })
    }
}

impl Transcoder {
    /// A transcoder with this key, shared by its instances.
    ///
    /// # Panics
    /// If the library refuses a key of the right length, which it does not.
    pub fn new(mode: Mode, key: &Key, direction: Direction) -> Transcoder {
        let cipher = match (mode, key) {
            (Mode::Cbc, Key::Aes128(key)) => Cipher::Cbc128(Arc::new(Cbc::<Aes128>::of(key))),
            (Mode::Cbc, Key::Aes256(key)) => Cipher::Cbc256(Arc::new(Cbc::<Aes256>::of(key))),
            (Mode::Gcm, key) => {
                let key = match key {
                    Key::Aes128(key) => aead::UnboundKey::new(&aead::AES_128_GCM, key),
                    Key::Aes256(key) => aead::UnboundKey::new(&aead::AES_256_GCM, key),
                };
                let key = key.expect("a key as long as its algorithm wants");
                Cipher::Gcm(Arc::new(aead::LessSafeKey::new(key)))
            }
        };
        Transcoder { cipher, direction, drops: false }
    }

    /// What would be left as it is, is dropped, but for empty payloads.
    #[must_use]
    pub fn dropping(self) -> Transcoder {
        Transcoder { drops: true, ..self }
    }
}

impl Element for Transcoder {
    fn name(&self) -> &'static str {
        "transcoder"
    }

    fn writes(&self) -> Writes {
        Writes::Payload
    }

    fn instance(&self, worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        // The seed alone should do; where it does not, workers and times differ.
        let worker = fold(worker as u64 + 1, 0x9e37_79b9_7f4a_7c15);
        let mut prefixes = Random(seed ^ worker ^ now_ns.rotate_left(32));
        let nonces = Nonces { prefix: prefixes.next(), count: 0, prefixes };
        let (what, counts) = (self.clone(), Counts::default());
        Box::new(Transcoding { what, nonces, counts, jobs: Vec::new() })
    }
}

/// Nonces that do not come twice.
struct Nonces {
    prefix: u64,
    count: u32,
    prefixes: Random,
}

impl Nonces {
    fn next(&mut self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce[..8].copy_from_slice(&self.prefix.to_be_bytes());
        nonce[8..].copy_from_slice(&self.count.to_be_bytes());
        self.count = self.count.wrapping_add(1);
        if self.count == 0 {
            self.prefix = self.prefixes.next();
        }
        nonce
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    transcoded: u64,
    octets: u64,
    empty: u64,
    too_short: u64,
    fragments: u64,
    others: u64,
    forged: u64,
}

/// A packet to be transcoded.
struct Job {
    /// Its number in the burst.
    at: usize,
    payload: Range<usize>,
    /// Where its checksum lies, and the payload's sum before; none if it need not change.
    checksum: Option<(usize, u16)>,
}

struct Transcoding {
    what: Transcoder,
    nonces: Nonces,
    counts: Counts,
    /// Empty between bursts.
    jobs: Vec<Job>,
}

impl Instance for Transcoding {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        let least = if let Cipher::Gcm(_) = self.what.cipher { GCM_ROOM } else { BLOCK };
        self.jobs.clear();
        for (at, passing) in burst.iter_mut().enumerate() {
            if passing.fate != Fate::Continue {
                continue;
            }
            passing.metadata.register = 0;
            passing.metadata.coalesce = true;
            let why = match job(at, &passing.packet, least) {
                Ok(job) => {
                    self.jobs.push(job);
                    continue;
                }
                Err(why) => why,
            };
            *match why {
                Left::Empty => &mut self.counts.empty,
                Left::TooShort => &mut self.counts.too_short,
                Left::Fragment => &mut self.counts.fragments,
                Left::Other => &mut self.counts.others,
            } += 1;
            if self.what.drops && why != Left::Empty {
                passing.fate = Fate::Drop;
            }
        }
        match &self.what.cipher {
            Cipher::Cbc128(cbc) => cbc.run(self.what.direction, &self.jobs, burst),
            Cipher::Cbc256(cbc) => cbc.run(self.what.direction, &self.jobs, burst),
            Cipher::Gcm(key) => {
                for job in &self.jobs {
                    let passing = &mut burst[job.at];
                    let payload = &mut passing.packet.frame[job.payload.clone()];
                    match self.what.direction {
                        Direction::Encrypt => seal(key, self.nonces.next(), payload),
                        Direction::Decrypt if open(key, payload) => {}
                        Direction::Decrypt => {
                            self.counts.forged += 1;
                            passing.fate = Fate::Drop;
                        }
                    }
                }
            }
        }
        for job in self.jobs.drain(..) {
            let passing = &mut burst[job.at];
            if passing.fate != Fate::Continue {
                continue;
            }
            passing.metadata.register = 1;
            self.counts.transcoded += 1;
            self.counts.octets += job.payload.len() as u64;
            let packet = &mut passing.packet;
            if let Some((at, before)) = job.checksum {
                let after = checksum::sum(&packet.frame[job.payload]);
                let field = u16::from_be_bytes([packet.frame[at], packet.frame[at + 1]]);
                let mut delta = Delta::new();
                delta.u16(before, after);
                let new = match packet.at.protocol {
                    IpProtocol::UDP => delta.apply_udp(field),
                    _ => delta.apply(field),
                };
                packet.frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counts;
        vec![
            ("transcoded", c.transcoded),
            ("octets", c.octets),
            ("empty", c.empty),
            ("too_short", c.too_short),
            ("fragments", c.fragments),
            ("others", c.others),
            ("forged", c.forged),
        ]
    }
}

/// Why a packet is left as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Empty,
    TooShort,
    Fragment,
    Other,
}

/// What is to be done with a packet whose payload has `least` octets or more.
fn job(at: usize, packet: &Packet<'_>, least: usize) -> Result<Job, Left> {
    if packet.at.network == Network::Other {
        return Err(Left::Other);
    }
    if packet.at.fragment != Fragment::Whole {
        return Err(Left::Fragment);
    }
    let payload = packet.payload().ok_or(Left::Other)?;
    match payload.len() {
        0 => return Err(Left::Empty),
        len if len < least => return Err(Left::TooShort),
        _ => {}
    }
    let (offset, udp) = match packet.at.protocol {
        IpProtocol::UDP => (6, true),
        _ => (16, false),
    };
    let field = packet.at.l4 as usize + offset;
    let unused = udp && packet.frame[field..field + 2] == [0, 0];
    let checksum = (packet.checksum != Checksum::Partial && !unused)
        .then(|| (field, checksum::sum(&packet.frame[payload.clone()])));
    Ok(Job { at, payload, checksum })
}

/// Encrypts what lies before the room, and fills the room.
fn seal(key: &aead::LessSafeKey, nonce: [u8; NONCE], payload: &mut [u8]) {
    let (text, room) = payload.split_at_mut(payload.len() - GCM_ROOM);
    let sealed = key.seal_in_place_separate_tag(
        aead::Nonce::assume_unique_for_key(nonce),
        aead::Aad::empty(),
        text,
    );
    // It fails for texts beyond 64 GiB only.
    let tag = sealed.expect("a payload is at most 65,535 octets");
    room[..NONCE].copy_from_slice(&nonce);
    room[NONCE..].copy_from_slice(tag.as_ref());
}

/// Decrypts what [`seal`] made; false, and the payload means nothing, if the tag is wrong.
fn open(key: &aead::LessSafeKey, payload: &mut [u8]) -> bool {
    let (text, room) = payload.split_at_mut(payload.len() - GCM_ROOM);
    let (nonce, tag) = room.split_at(NONCE);
    let (Ok(nonce), Ok(tag)) =
        (aead::Nonce::try_assume_unique_for_key(nonce), aead::Tag::try_from(tag))
    else {
        return false;
    };
    if key.open_in_place_separate_tag(nonce, aead::Aad::empty(), tag, text, 0..).is_err() {
        return false;
    }
    room.fill(0);
    true
}

/// CBC's keys.
struct Cbc<C> {
    payload: C,
    vector: C,
}

impl Cbc<Aes128> {
    fn of(key: &[u8; 16]) -> Self {
        let payload = Aes128::new(key.into());
        let derived = vector_key(&payload);
        Cbc { vector: Aes128::new((&derived[0]).into()), payload }
    }
}

impl Cbc<Aes256> {
    fn of(key: &[u8; 32]) -> Self {
        let payload = Aes256::new(key.into());
        let mut derived = [0; 32];
        for (part, block) in derived.chunks_mut(BLOCK).zip(vector_key(&payload)) {
            part.copy_from_slice(&block);
        }
        Cbc { vector: Aes256::new((&derived).into()), payload }
    }
}

/// The key for vectors: two constants, encrypted.
fn vector_key(cipher: &impl BlockCipherEncrypt<BlockSize = U16>) -> [[u8; BLOCK]; 2] {
    let mut blocks = [*b"payload vector 1", *b"payload vector 2"];
    blocks.iter_mut().for_each(|block| cipher.encrypt_block(block.into()));
    blocks
}

/// The fields that both ends see, and how many of the blocks they fill. The first octet tells how many, so
/// no packet's blocks begin with all of another's, as CBC-MAC wants it.
fn fields(packet: &Packet<'_>, payload: usize) -> ([[u8; BLOCK]; 3], usize) {
    let (at, frame) = (&packet.at, &*packet.frame);
    let (l3, l4) = (at.l3 as usize, at.l4 as usize);
    let octets = |from: usize, len: usize| frame.get(from..from + len).unwrap_or_default();
    let mut blocks = [[0; BLOCK]; 3];
    let mut put = |block: usize, place: usize, from: &[u8]| {
        blocks[block][place..place + from.len()].copy_from_slice(from);
    };
    put(0, 1, &[at.protocol.0]);
    // A payload lies within a frame, and a jumbogram's length is told apart by its low bits.
    put(0, 2, &(payload as u16).to_be_bytes());
    put(0, 4, octets(l4, 4));
    if at.protocol == IpProtocol::TCP {
        put(0, 8, octets(l4 + 4, 4));
    }
    if at.network == Network::V4 {
        put(0, 0, &[4]);
        put(0, 12, octets(l3 + 4, 2));
        put(1, 0, octets(l3 + 12, 8));
        (blocks, 2)
    } else {
        put(0, 0, &[6]);
        put(1, 0, octets(l3 + 8, BLOCK));
        put(2, 0, octets(l3 + 24, BLOCK));
        (blocks, 3)
    }
}

impl<C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt<BlockSize = U16>> Cbc<C> {
    /// Transcodes these packets of a burst.
    fn run(&self, direction: Direction, jobs: &[Job], burst: &mut [Passing<'_>]) {
        if jobs.is_empty() {
            return;
        }
        let mut macs: SmallVec<[Mac; 32]> = jobs
            .iter()
            .map(|job| {
                let (fields, blocks) = fields(&burst[job.at].packet, job.payload.len());
                Mac { fields, blocks, vector: [0; BLOCK] }
            })
            .collect();
        self.vector.encrypt_with_backend(Vectors(&mut macs));
        let mut lanes: SmallVec<[Lane<'_>; 32]> = SmallVec::new();
        let mut wanted = jobs.iter().zip(&macs).peekable();
        for (n, passing) in burst.iter_mut().enumerate() {
            let Some((job, mac)) = wanted.next_if(|(job, _)| job.at == n) else { continue };
            let payload = &mut passing.packet.frame[job.payload.clone()];
            lanes.push(Lane { payload, chain: mac.vector });
        }
        match direction {
            Direction::Encrypt => self.payload.encrypt_with_backend(SideBySide(&mut lanes)),
            Direction::Decrypt => self.payload.decrypt_with_backend(Clear(&mut lanes)),
        }
    }
}

fn xor(a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

/// A packet's fields, and what becomes of them.
struct Mac {
    fields: [[u8; BLOCK]; 3],
    blocks: usize,
    vector: [u8; BLOCK],
}

/// Derives vectors side by side.
struct Vectors<'a>(&'a mut [Mac]);

impl BlockSizeUser for Vectors<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Vectors<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        for step in 0..3 {
            for mac in self.0.iter_mut().filter(|mac| step < mac.blocks) {
                mac.vector = xor(&mac.vector, &mac.fields[step]);
                backend.encrypt_block_inplace((&mut mac.vector).into());
            }
        }
    }
}

/// A payload, and the block before its next one.
struct Lane<'a> {
    payload: &'a mut [u8],
    chain: [u8; BLOCK],
}

/// Encrypts packets side by side: the first block of each, then the second. None waits for the others, so the
/// processor has many under way at a time.
struct SideBySide<'a, 'b>(&'a mut [Lane<'b>]);

impl BlockSizeUser for SideBySide<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for SideBySide<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let blocks = |lane: &Lane<'_>| lane.payload.len() / BLOCK;
        let steps = self.0.iter().map(blocks).max().unwrap_or(0);
        for step in 0..steps {
            for lane in self.0.iter_mut() {
                let (blocks, _) = lane.payload.as_chunks_mut::<BLOCK>();
                if let Some(block) = blocks.get_mut(step) {
                    lane.chain = xor(&lane.chain, block);
                    backend.encrypt_block_inplace((&mut lane.chain).into());
                    *block = lane.chain;
                }
            }
        }
        for lane in self.0.iter_mut() {
            let (blocks, rest) = lane.payload.as_chunks_mut::<BLOCK>();
            if let (Some(last), false) = (blocks.last_mut(), rest.is_empty()) {
                // The rest, padded with zeros, goes where the last whole block was, whose beginning goes
                // where the rest was.
                let mut both = lane.chain;
                for (both, rest) in both.iter_mut().zip(rest.iter_mut()) {
                    (*both, *rest) = (*both ^ *rest, *both);
                }
                backend.encrypt_block_inplace((&mut both).into());
                *last = both;
            }
        }
    }
}

/// Decrypts packets, the blocks of each side by side.
struct Clear<'a, 'b>(&'a mut [Lane<'b>]);

impl BlockSizeUser for Clear<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherDecClosure for Clear<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        for lane in self.0.iter_mut() {
            let (blocks, rest) = lane.payload.as_chunks_mut::<BLOCK>();
            if let (Some(last), false) = (blocks.last_mut(), rest.is_empty()) {
                // The last whole block is that of the rest, padded with zeros and chained to the one
                // before, whose beginning is where the rest was.
                let mut both = *last;
                backend.decrypt_block_inplace((&mut both).into());
                for (both, rest) in both.iter_mut().zip(rest) {
                    (*both, *rest) = (*rest, *both ^ *rest);
                }
                *last = both;
            }
            // From the end, so that each block's ciphertext is there for the one behind it.
            let mut end = blocks.len();
            while end >= B::ParBlocksSize::USIZE {
                let begin = end - B::ParBlocksSize::USIZE;
                let mut clear = ParBlocks::<B>::default();
                for (clear, block) in clear.iter_mut().zip(&blocks[begin..end]) {
                    clear.0 = *block;
                }
                backend.decrypt_par_blocks_inplace(&mut clear);
                for at in (begin..end).rev() {
                    let before = if at == 0 { lane.chain } else { blocks[at - 1] };
                    blocks[at] = xor(&clear[at - begin].0, &before);
                }
                end = begin;
            }
            for at in (0..end).rev() {
                let before = if at == 0 { lane.chain } else { blocks[at - 1] };
                let mut clear = blocks[at];
                backend.decrypt_block_inplace((&mut clear).into());
                blocks[at] = xor(&clear, &before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::{Frame, checksums_are_right};
    use std::net::IpAddr;
    use wire::tcp::Flags;

    fn hex(digits: &str) -> Vec<u8> {
        let digits: String = digits.split_whitespace().collect();
        let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(octet).collect()
    }

    fn key(digits: &str) -> Key {
        let octets = hex(digits);
        match octets.len() {
            16 => Key::Aes128(octets.try_into().unwrap()),
            _ => Key::Aes256(octets.try_into().unwrap()),
        }
    }

    fn keys() -> [Key; 2] {
        [Key::Aes128([7; 16]), Key::Aes256([9; 32])]
    }

    fn instance(mode: Mode, key: &Key, direction: Direction) -> Box<dyn Instance> {
        Transcoder::new(mode, key, direction).instance(0, 0, 1)
    }

    /// Registers and fates after a call with these frames, whose checksums are as said.
    fn call(
        instance: &mut dyn Instance,
        checksum: Checksum,
        frames: &mut [Vec<u8>],
    ) -> Vec<(u64, Fate)> {
        let mut burst: Vec<_> = frames
            .iter_mut()
            .map(|frame| Passing::new(Packet { checksum, ..Packet::of(frame) }))
            .collect();
        instance.ingress(0, &mut burst);
        burst.iter().map(|p| (p.metadata.register, p.fate)).collect()
    }

    fn counted(instance: &dyn Instance, name: &str) -> u64 {
        instance.counters().iter().find(|(n, _)| *n == name).unwrap().1
    }

    /// A frame with this payload.
    fn frame(v6: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
        let address = |n: u8| -> IpAddr {
            if v6 {
                [0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into()
            } else {
                [10, 0, 0, n].into()
            }
        };
        let ends = ((address(1), 1000), (address(2), 2000));
        let mut frame = if tcp {
            Frame::tcp_with(ends.0, ends.1, Flags::ACK, (77, 1), 500, &[1; 12], payload.len())
        } else {
            Frame::udp(ends.0, ends.1, payload.len())
        };
        let begin = frame.body.len() - payload.len();
        frame.body[begin..].copy_from_slice(payload);
        frame.bytes()
    }

    fn random_octets(random: &mut Random, len: usize) -> Vec<u8> {
        (0..len).map(|_| random.next() as u8).collect()
    }

    const TEXT: &str = "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51 \
                        30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710";

    /// What the element makes of a text as if its vector were this one: the difference to the real vector goes
    /// into the first block.
    fn cbc(key: &Key, vector: &[u8], text: &[u8], direction: Direction) -> Vec<u8> {
        let mut probe = frame(false, false, text);
        let at = probe.len() - text.len();
        let (blocks, n) = fields(&Packet::of(&mut probe), text.len());
        let mut mac = [Mac { fields: blocks, blocks: n, vector: [0; BLOCK] }];
        match Transcoder::new(Mode::Cbc, key, direction).cipher {
            Cipher::Cbc128(cbc) => cbc.vector.encrypt_with_backend(Vectors(&mut mac)),
            Cipher::Cbc256(cbc) => cbc.vector.encrypt_with_backend(Vectors(&mut mac)),
            Cipher::Gcm(_) => unreachable!("CBC was asked for"),
        }
        let difference = xor(&mac[0].vector, vector.try_into().unwrap());
        let apply =
            |octets: &mut [u8]| octets.iter_mut().zip(difference).for_each(|(o, d)| *o ^= d);
        let mut text = text.to_vec();
        if direction == Direction::Encrypt {
            apply(&mut text);
        }
        let mut frames = [frame(false, false, &text)];
        let done = call(&mut *instance(Mode::Cbc, key, direction), Checksum::Unknown, &mut frames);
        assert_eq!(done, [(1, Fate::Continue)]);
        assert!(checksums_are_right(&frames[0]));
        let mut out = frames[0][at..].to_vec();
        if direction == Direction::Decrypt {
            apply(&mut out);
        }
        out
    }

    #[test]
    fn cbc_s_vectors_of_nist_sp_800_38a() {
        let vector = hex("000102030405060708090a0b0c0d0e0f");
        for (digits, want) in [
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2 \
                 73bed6b8e3c1743b7116e69e22229516 3ff1caa1681fac09120eca307586e1a7",
            ),
            (
                "603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4",
                "f58c4c04d6e5f1ba779eabfb5f7bfbd6 9cfc4e967edb808d679f777bc6702c7d \
                 39f23369a9d9bacfa530e26304231461 b2eb05e2c39be9fcda6c19078c6a9d1b",
            ),
        ] {
            let (key, text, want) = (key(digits), hex(TEXT), hex(want));
            assert_eq!(cbc(&key, &vector, &text, Direction::Encrypt), want);
            assert_eq!(cbc(&key, &vector, &want, Direction::Decrypt), text);
            // One block alone, too.
            assert_eq!(cbc(&key, &vector, &text[..16], Direction::Encrypt), want[..16]);
        }
    }

    #[test]
    fn ciphertext_stealing_s_vectors_of_rfc_3962() {
        let key = Key::Aes128(*b"chicken teriyaki");
        let text = b"I would like the General Gau's Chicken, please,";
        for (len, want) in [
            (17, "c6353568f2bf8cb4d8a580362da7ff7f 97"),
            (31, "fc00783e0efdb2c1d445d4c8eff7ed22 97687268d6ecccc0c07b25e25ecfe5"),
            (
                47,
                "97687268d6ecccc0c07b25e25ecfe584 b3fffd940c16a18c1b5549d2f838029e \
                 39312523a78662d5be7fcbcc98ebf5",
            ),
        ] {
            let want = hex(want);
            assert_eq!(cbc(&key, &[0; 16], &text[..len], Direction::Encrypt), want);
            assert_eq!(cbc(&key, &[0; 16], &want, Direction::Decrypt), text[..len]);
        }
    }

    #[test]
    fn gcm_s_vectors_are_opened() {
        let text = hex("d9313225f88406e5a55909c5aff5269a 86a7a9531534f7da2e4c303d8a318a72 \
                        1c3c0c95956809532fcf0e2449a6b525 b16aedf5aa0de657ba637b391aafd255");
        let nonce = hex("cafebabefacedbaddecaf888");
        for (digits, secret, tag) in [
            (
                "feffe9928665731c6d6a8f9467308308",
                "42831ec2217774244b7221b784d0d49c e3aa212f2c02a4e035c17e2329aca12e \
                 21d514b25466931c7d8f6a5aac84aa05 1ba30b396a0aac973d58e091473f5985",
                "4d5c2af327cd64a62cf35abd2ba6fab4",
            ),
            (
                "feffe9928665731c6d6a8f9467308308 feffe9928665731c6d6a8f9467308308",
                "522dc1f099567d07f47f37a32a84427d 643a8cdcbfe5c0c97598a2bd2555d1aa \
                 8cb08e48590dbb3da7b08b1056828838 c5f61e6393ba7a0abcc9f662898015ad",
                "b094dac5d93471bdec1a502270e3cc6c",
            ),
        ] {
            let payload = [hex(secret), nonce.clone(), hex(tag)].concat();
            let mut opener = instance(Mode::Gcm, &key(digits), Direction::Decrypt);
            for tcp in [false, true] {
                let mut frames = [frame(false, tcp, &payload)];
                let at = frames[0].len() - payload.len();
                let done = call(&mut *opener, Checksum::Unknown, &mut frames);
                assert_eq!(done, [(1, Fate::Continue)]);
                assert_eq!(frames[0][at..], [text.clone(), vec![0; GCM_ROOM]].concat());
                assert!(checksums_are_right(&frames[0]));
            }
            let mut forged: Vec<_> = (0..payload.len())
                .map(|n| {
                    let mut payload = payload.clone();
                    payload[n] ^= 1;
                    frame(true, false, &payload)
                })
                .collect();
            let done = call(&mut *opener, Checksum::Unknown, &mut forged);
            assert!(done.iter().all(|d| *d == (0, Fate::Drop)));
            assert_eq!(counted(&*opener, "forged"), payload.len() as u64);
        }
    }

    #[test]
    fn payloads_of_all_lengths_come_back_and_checksums_are_right() {
        let mut random = Random(3);
        for (mode, least) in [(Mode::Cbc, BLOCK), (Mode::Gcm, GCM_ROOM)] {
            for key in keys() {
                let mut there = instance(mode, &key, Direction::Encrypt);
                let mut back = instance(mode, &key, Direction::Decrypt);
                for begin in (0..1500).step_by(25) {
                    let before: Vec<_> = (begin..begin + 25)
                        .map(|len| {
                            let payload = random_octets(&mut random, len);
                            frame(random.below(2) == 0, random.below(2) == 0, &payload)
                        })
                        .collect();
                    let mut frames = before.clone();
                    let done = call(&mut *there, Checksum::Good, &mut frames);
                    for (n, (frame, before)) in frames.iter().zip(&before).enumerate() {
                        let len = begin + n;
                        let is = len >= least;
                        assert_eq!(done[n], (is.into(), Fate::Continue), "{mode:?} {len}");
                        assert_eq!(frame != before, is, "{mode:?} {len}");
                        assert!(checksums_are_right(frame), "{mode:?} {len}");
                    }
                    call(&mut *back, Checksum::Unknown, &mut frames);
                    for (n, (frame, before)) in frames.iter().zip(&before).enumerate() {
                        let room = if mode == Mode::Gcm { GCM_ROOM } else { 0 };
                        let len = begin + n;
                        let text = frame.len() - len.saturating_sub(room);
                        let room = if len < least { 0 } else { room };
                        let end = frame.len() - room;
                        assert_eq!(frame[text.min(end)..end], before[text.min(end)..end]);
                        assert!(frame[end..].iter().all(|o| *o == 0), "{mode:?} {len}");
                        assert!(checksums_are_right(frame), "{mode:?} {len}");
                        assert!(room > 0 || frame == before);
                    }
                }
                assert_eq!(counted(&*there, "empty") + counted(&*there, "too_short"), least as u64);
            }
        }
    }

    #[test]
    fn broken_partial_and_absent_checksums_stay_so() {
        let payload = [5; 100];
        for (mode, key) in [Mode::Cbc, Mode::Gcm].into_iter().flat_map(|m| keys().map(|k| (m, k))) {
            let mut there = instance(mode, &key, Direction::Encrypt);
            for tcp in [false, true] {
                let sound = frame(false, tcp, &payload);
                let field = if tcp { 34 + 16 } else { 34 + 6 };
                let mut broken = sound.clone();
                broken[field] ^= 0x40;
                let mut frames = [sound.clone(), broken];
                call(&mut *there, Checksum::Unknown, &mut frames);
                assert!(checksums_are_right(&frames[0]) && !checksums_are_right(&frames[1]));
                let mut frames = [sound.clone()];
                let pseudo = wire::offload::pseudo_header_partial(&mut frames[0]).unwrap();
                let left = frames[0][field..field + 2].to_vec();
                call(&mut *there, Checksum::Partial, &mut frames);
                assert_eq!(frames[0][field..field + 2], left);
                let (start, offset) = (pseudo.start.into(), pseudo.offset.into());
                wire::offload::complete_partial_checksum(&mut frames[0], start, offset).unwrap();
                assert!(checksums_are_right(&frames[0]));
                if !tcp {
                    let mut frames = [sound];
                    frames[0][field..field + 2].fill(0);
                    assert_eq!(call(&mut *there, Checksum::Unknown, &mut frames)[0].0, 1);
                    assert_eq!(frames[0][field..field + 2], [0, 0]);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_transcoded_is_left_and_counted_or_dropped() {
        let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2)];
        let mut first = Frame::udp(ends[0], ends[1], 40);
        first.fragment = (7, 0x2000);
        let mut later = Frame::udp(ends[0], ends[1], 40);
        later.fragment = (7, 9);
        let icmp = Frame::icmp(ends[0].0, ends[1].0, 8, 0, 1, &[0; 40]);
        let before = [
            frame(false, true, b""),
            frame(false, true, b"below one block"),
            first.bytes(),
            later.bytes(),
            icmp.bytes(),
            vec![0; 60],
        ];
        for mode in [Mode::Cbc, Mode::Gcm] {
            for (drops, fate) in [(false, Fate::Continue), (true, Fate::Drop)] {
                let transcoder = Transcoder::new(mode, &keys()[0], Direction::Encrypt);
                let transcoder = if drops { transcoder.dropping() } else { transcoder };
                let mut instance = transcoder.instance(0, 0, 1);
                let mut frames = before.clone();
                let done = call(&mut *instance, Checksum::Unknown, &mut frames);
                assert_eq!(done[0], (0, Fate::Continue), "nothing in it is secret");
                assert_eq!(done[1..], [(0, fate); 5]);
                assert_eq!(frames, before);
                assert_eq!(
                    instance.counters(),
                    [
                        ("transcoded", 0),
                        ("octets", 0),
                        ("empty", 1),
                        ("too_short", 1),
                        ("fragments", 2),
                        ("others", 2),
                        ("forged", 0)
                    ]
                );
            }
        }
        // What another service has dropped is not touched.
        let mut frame = frame(false, true, &[1; 50]);
        let before = frame.clone();
        let mut instance = instance(Mode::Cbc, &keys()[0], Direction::Encrypt);
        let mut passing = Passing::new(Packet::of(&mut frame));
        passing.fate = Fate::Drop;
        instance.ingress(0, &mut [passing]);
        assert_eq!(frame, before);
    }

    #[test]
    fn vectors_and_nonces_differ_from_packet_to_packet() {
        let key = &keys()[0];
        let mut cbc = instance(Mode::Cbc, key, Direction::Encrypt);
        let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2)];
        let tcp = |seq| Frame::tcp(ends[0], ends[1], Flags::ACK, (seq, 1), 32).bytes();
        let mut ident = tcp(1);
        ident[19] = 1;
        let udp = Frame::udp(ends[0], ends[1], 32).bytes();
        let mut frames = [tcp(1), tcp(2), ident, tcp(1), udp];
        call(&mut *cbc, Checksum::Unknown, &mut frames);
        let secret = |frame: &Vec<u8>| frame[frame.len() - 32..].to_vec();
        let seen: std::collections::HashSet<_> = frames.iter().map(secret).collect();
        assert_eq!(seen.len(), 4, "of five packets two agree in all fields");

        let mut nonces = std::collections::HashSet::new();
        for worker in 0..3 {
            let gcm = Transcoder::new(Mode::Gcm, key, Direction::Encrypt);
            // Even from the same seed.
            let mut gcm = gcm.instance(worker, 0, 1);
            let mut frames = vec![frame(false, false, &[0; 40]); 10];
            call(&mut *gcm, Checksum::Unknown, &mut frames);
            nonces.extend(frames.iter().map(|f| f[f.len() - 28..f.len() - 16].to_vec()));
        }
        assert_eq!(nonces.len(), 30);
        let mut nonces = Nonces { prefix: 1, count: u32::MAX, prefixes: Random(5) };
        let (last, first) = (nonces.next(), nonces.next());
        assert_eq!(last, [0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255]);
        assert!(last[..8] != first[..8] && first[8..] == [0; 4]);
    }

    #[test]
    fn keys_are_not_shown() {
        let transcoder = Transcoder::new(Mode::Cbc, &keys()[0], Direction::Encrypt);
        assert!(!format!("{transcoder:?} {:?}", keys()).contains('7'));
    }
}
