//! What elements that keep connections have in common: pages of them, images, what is forgotten.
//!
//! Checked by: the tests of [`simple`](crate::simple).

use crate::conntrack::image::{Image, Writer};
use crate::conntrack::{Selection, Tracker};
use crate::element::Kept;

/// Connections that one step of an image writes or restores.
const STEP: usize = 1024;

pub(crate) fn page(
    tracker: &Tracker,
    now_ns: u64,
    from: usize,
    places: usize,
    see: &mut dyn FnMut(Kept),
) -> Option<usize> {
    let mut kept = |connection| see(Kept { connection, backend: None });
    tracker.page(now_ns, from, places, &mut kept)
}

/// The image of a tracker to which no packet comes any more.
pub(crate) fn export(tracker: &mut Tracker, now_ns: u64, taken_at: u64) -> Vec<u8> {
    let (writer, mut out) = Writer::new(tracker, taken_at);
    let mut writer = writer.of_stopped();
    loop {
        let more = writer.slice(tracker, now_ns, STEP);
        out.extend(writer.frame());
        if !more {
            out.extend(writer.end());
            return out;
        }
    }
}

pub(crate) fn import(tracker: &mut Tracker, now_ns: u64, image: Vec<u8>) -> Result<usize, String> {
    let mut image = Image::read(image).map_err(|error| error.to_string())?;
    while image.restore(tracker, now_ns, STEP) {}
    Ok(usize::try_from(image.restored().connections).unwrap_or(usize::MAX))
}

/// Forgets what is chosen; how many there were.
pub(crate) fn forget(tracker: &mut Tracker, chosen: &Selection) -> usize {
    tracker.flush_selected(chosen)
}
