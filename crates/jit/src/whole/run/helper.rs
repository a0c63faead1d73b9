//! What code of whole programs calls.

#![allow(unsafe_code)]

use super::*;

/// The packet and the run that words belong to.
///
/// # Safety
/// Code was [entered](Run::enter) with these words and calls now.
unsafe fn of<'w>(words: *mut u64) -> (&'w mut Copy, &'w mut Run<'w>) {
    // SAFETY: both addresses were stored when code was entered, and nobody else uses either until it returns.
    unsafe {
        let copy = *words.add(at::COPY) as *mut Copy;
        let run = *words.add(at::RUN) as *mut Run<'w>;
        (&mut *copy, &mut *run)
    }
}

unsafe extern "C" fn site(
    words: *mut u64,
    site: *const Site,
    told: *const u64,
    args: *const u64,
) -> u64 {
    // SAFETY: code calls with its words and with a site that lives as long as it does.
    let ((copy, run), site) = unsafe { (of(words), &*site) };
    run.site(copy, site, told, args)
}

unsafe extern "C" fn number(
    words: *mut u64,
    site: *const Site,
    number: u64,
    args: *const u64,
) -> u64 {
    // SAFETY: as above.
    let ((copy, run), site) = unsafe { (of(words), &*site) };
    match &site.what {
        What::Op(op) => run.op(copy, op, site, number as u32, args).map_or(end::NONE, End::code),
        _ => end::NONE,
    }
}

unsafe extern "C" fn eval(
    words: *mut u64,
    base: *const u64,
    site: *const Site,
    args: *const u64,
    out: *mut u64,
) -> u64 {
    // SAFETY: as above; `base` is the packet's words, or what was parsed, which has as many.
    let (copy, run, site, base) = unsafe {
        let (copy, run) = of(words);
        let base = Values::at(run.layout, base);
        (copy, run, &*site, base)
    };
    let args = args_of(site, args);
    if let What::Eval(e) = &site.what {
        let value = Env { values: base, ..run.env(copy, &args) }.eval(e);
        let limbs = value.limbs();
        // SAFETY: code has room there for a value of the expression's width.
        unsafe { std::ptr::copy_nonoverlapping(limbs.as_ptr(), out, limbs.len()) };
    }
    0
}

unsafe extern "C" fn touch(words: *mut u64) -> u64 {
    // SAFETY: as above.
    let (copy, run) = unsafe { of(words) };
    copy.touch(run.layout);
    0
}

unsafe extern "C" fn peek(words: *mut u64, skip: u64, width: u64) -> u64 {
    // SAFETY: as above.
    let (copy, run) = unsafe { of(words) };
    let at = copy.cursor().saturating_add(skip as usize);
    bits::peek(copy.source.bytes(run.input), at, width as u32)
}

unsafe extern "C" fn crc(number: u64, bytes: *const u8, len: u64) -> u64 {
    // SAFETY: code has written so many bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    let algorithm = match number {
        0 => HashAlgorithm::Crc16,
        1 => HashAlgorithm::Crc32,
        _ => HashAlgorithm::Crc32c,
    };
    hash::hash(algorithm, bytes, 8 * bytes.len()).low_u64()
}

unsafe extern "C" fn round(words: *mut u64) -> u64 {
    // SAFETY: as above.
    let (_, run) = unsafe { of(words) };
    if run.rounds == ROUNDS_MAX {
        return End::Drop(DropReason::LoopLimit).code();
    }
    run.rounds += 1;
    end::NONE
}

unsafe extern "C" fn payload(words: *mut u64) -> u64 {
    // SAFETY: as above.
    let (copy, run) = unsafe { of(words) };
    run.payload_sum(copy).into()
}

macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident = $function:ident: $ty:ty;)*) => {$(
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub(crate) fn $name() -> usize {
            let function: $ty = $function;
            function as *const () as usize
        }
    )*};
}

addresses! {
    /// Does what stands at a site.
    SITE = site: unsafe extern "C" fn(*mut u64, *const Site, *const u64, *const u64) -> u64;
    /// Does the operation of a site, which takes a number or none.
    NUMBER = number: unsafe extern "C" fn(*mut u64, *const Site, u64, *const u64) -> u64;
    /// Works out the expression of a site over values at an address.
    EVAL = eval: unsafe extern "C" fn(*mut u64, *const u64, *const Site, *const u64, *mut u64) -> u64;
    /// Something that the emitted bytes depend on is about to change.
    TOUCH = touch: unsafe extern "C" fn(*mut u64) -> u64;
    /// Bits of the unparsed rest.
    PEEK = peek: unsafe extern "C" fn(*mut u64, u64, u64) -> u64;
    /// CRC-16, CRC-32 or CRC-32C of so many bytes.
    CRC = crc: unsafe extern "C" fn(u64, *const u8, u64) -> u64;
    /// One more round of a loop.
    ROUND = round: unsafe extern "C" fn(*mut u64) -> u64;
    /// The sum of the unparsed rest.
    PAYLOAD = payload: unsafe extern "C" fn(*mut u64) -> u64;
}
