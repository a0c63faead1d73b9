//! Options with lists: `key=1,2,5-9,other=...`. A word without `=` goes on with the list before it.

use std::collections::BTreeSet;

/// A key and its values; none for a word that stands alone.
pub(super) type Word<'a> = (&'a str, Option<Vec<&'a str>>);

/// Splits a text. A word without `=` is one of its own where no list is open.
pub(super) fn split<'a>(text: &'a str, alone: &[&str]) -> Vec<Word<'a>> {
    let mut options: Vec<Word<'a>> = Vec::new();
    for word in text.split(',') {
        match word.split_once('=') {
            Some((key, value)) => options.push((key, Some(vec![value]))),
            None => match options.last_mut() {
                Some((_, Some(list))) if !alone.contains(&word) => list.push(word),
                _ => options.push((word, None)),
            },
        }
    }
    options
}

/// One number of a VLAN.
pub(super) fn vlan(word: &str) -> Result<u16, String> {
    let number = word.parse::<u16>().ok().filter(|vlan| *vlan < 4096);
    number.ok_or_else(|| format!("{word:?} is no VLAN: 0 to 4095 were expected"))
}

/// Numbers and ranges of VLANs.
pub(super) fn vlans(words: &[&str]) -> Result<BTreeSet<u16>, String> {
    let mut all = BTreeSet::new();
    for word in words {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (vlan(first)?, vlan(last)?);
        if first > last {
            return Err(format!("{word:?}: the first VLAN of a range is the lower one"));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// A set of VLANs as it is written, shortest.
pub(super) fn show(vlans: &BTreeSet<u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for vlan in vlans {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *vlan => *last = *vlan,
            _ => ranges.push((*vlan, *vlan)),
        }
    }
    let show = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(show).collect::<Vec<_>>().join(",")
}
